"""A writer that gathers rows of a service, and commits many at a time."""
