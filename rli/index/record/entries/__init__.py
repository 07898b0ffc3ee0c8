"""The entries of a record index, in its store."""
