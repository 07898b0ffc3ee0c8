"""Bytes: how record keys and entries are encoded, in every store alike."""
