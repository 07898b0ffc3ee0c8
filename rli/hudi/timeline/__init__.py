"""Apache Hudi's timeline: instants, their metadata, the archive."""
