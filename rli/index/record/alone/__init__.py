"""The record index without a table of rli: its transactions are its commits."""
