"""The contents of a file group: merging records into a new base file, and the journal of its index changes."""
