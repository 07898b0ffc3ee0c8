"""The record index: each record key's location, kept in a key-value store."""
