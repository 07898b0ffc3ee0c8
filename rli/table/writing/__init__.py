"""Writes from the first look-up to the commit, with their conflicts and further attempts."""
