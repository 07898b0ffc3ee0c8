"""``rli demo``: a story told with real data."""
