"""Indexes on columns that are kept in key-value stores: value of the column → record keys."""
