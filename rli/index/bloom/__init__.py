"""The bloom index: key ranges and bloom filters of base files tell which few of them may hold a key."""
