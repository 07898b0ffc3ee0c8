"""Table services: clean, archive, rollback, restore, savepoint."""
