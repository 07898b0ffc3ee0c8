"""Where a write runs, and in how many tasks: decided in one place, from numbers."""
