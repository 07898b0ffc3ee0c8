"""The consistent bucket index: buckets that are split and merged, so that a partition may grow and shrink."""
