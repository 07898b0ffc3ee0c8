"""The record index of a table."""
