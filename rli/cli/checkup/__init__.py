"""What ``rli doctor`` looks at."""
