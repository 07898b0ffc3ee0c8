"""The request of a write: its rows are keyed once, kept in files or in the driver, and located."""
