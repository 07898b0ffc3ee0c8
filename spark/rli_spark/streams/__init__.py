"""Streams that write tables."""
