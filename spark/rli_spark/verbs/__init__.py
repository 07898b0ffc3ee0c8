"""What users call on frames: upsert, insert, delete, tag, stage, cluster, and the index of a table."""
