"""Keeping a record index and its table the same: sync, bootstrap, verify, repair."""
