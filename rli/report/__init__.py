"""A report on a table: one page that needs nothing else, for ``rli report``."""
