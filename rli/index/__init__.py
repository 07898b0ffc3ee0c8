"""The index: record key to location, with its commits and settings, on any store."""
