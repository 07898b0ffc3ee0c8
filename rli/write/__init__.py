"""Writes: tagging, placement, clustering, and the engine that runs them in this process."""
