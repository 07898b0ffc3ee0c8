"""Tells whether strings are distinct, sooner than a hash table of them does."""

from __future__ import annotations

import pyarrow as pa

from rli.codec.string_fingerprints import string_fingerprints


def are_surely_distinct(strings: pa.Array) -> bool:
    """Whether no two strings (string array, shape (n,), no nulls) have the same hash.

    False where two strings are equal, and hardly ever where none are.
    """
    hashes = string_fingerprints(strings)
    hashes.sort()
    return not bool((hashes[1:] == hashes[:-1]).any())
