"""What rli tells operators while it works: log records, metrics, and what a process is waiting for."""
