"""What a write asks of its engine, and the engine of this process."""
