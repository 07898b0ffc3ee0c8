"""What kinds of index share that keep nothing of their own, and find records in the table's files."""
