"""The commit log of a record index: what gives its numbers their meaning."""
