"""What proves of files that no record in them passes a filter, without opening them: the partitions of the metadata table."""
