"""Operations on records: upsert, insert and delete, written once for all engines."""
