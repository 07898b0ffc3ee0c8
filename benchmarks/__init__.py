"""Benchmarks: each prints a ratio against a baseline that is measured in the same run."""
