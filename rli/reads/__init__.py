"""Reads that ask the index which files hold the records."""
