"""What every engine does with a batch of rows: key it, locate it, place it. Pure functions, which run in any process."""
