"""What kinds of index share that compute the file group of a record from the hash of its key."""
