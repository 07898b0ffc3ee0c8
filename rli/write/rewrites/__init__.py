"""Writes that change no record, and rewrite file groups: clustering."""
