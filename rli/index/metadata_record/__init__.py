"""The record index of a table's metadata table, as the index of that table: shared with Hudi's own writers."""
