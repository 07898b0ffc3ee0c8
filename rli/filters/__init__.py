"""Filters of records: their forms, the tree that all forms become, and what bounds of columns tell of it."""
