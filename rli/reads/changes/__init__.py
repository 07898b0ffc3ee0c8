"""What commits changed, record by record: ``Table.changes``."""
