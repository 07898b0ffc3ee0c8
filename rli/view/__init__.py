"""The table as it is read: its definition, file-system view, snapshots and time travel."""
