"""The timeline of a table: instants, what they say, and writing them."""
