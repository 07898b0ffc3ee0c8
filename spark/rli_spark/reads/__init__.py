"""Reading a table into a frame: all of it, or the records of some keys."""
