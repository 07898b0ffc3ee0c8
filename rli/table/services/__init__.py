"""Table services on the timeline: clean, archive, savepoint, rollback and restore."""
