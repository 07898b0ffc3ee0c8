"""Hudi's metadata table: its keys, its records, and the merged reading of its partitions."""
