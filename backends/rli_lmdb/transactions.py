"""How many keys are written in one transaction."""

from __future__ import annotations

from typing import Final

# A transaction copies every page that it touches, and LMDB keeps the pages of the last two transactions aside. For a
# million random keys of 16 bytes in 20 batches the file has 37.0 B an entry in use and, with transactions of 1,024
# keys, 38.5 in all; of 2,048 39.9; of 4,096 42.8; of 50,000 106. So they grow with the index, whose size the pages
# aside are then the same small part of, and where neighbours in a sorted batch share a page.
_MIN_KEYS_PER_TRANSACTION: Final = 1024
MAX_KEYS_PER_TRANSACTION: Final = 16_384
_MOST_CLOSE_TOGETHER: Final = 1 << 18
"""Each transaction waits for the disk, so a load into an empty index is to have few: of 2 million keys at most 16, where 65,536
keys at a time make 32. With keys of 16 bytes, a transaction holds 7 MB of pages in memory."""
_MOST_BYTES_TOGETHER: Final = 16 << 20
"""Of keys: a transaction holds about twice as many bytes in memory."""

_TRANSACTIONS_PER_INDEX: Final = 1024
_ENTRIES_PER_TRANSACTION: Final = 20_000
"""Stored between the first key of a transaction and its last: on two hundred pages, with keys of 16 bytes."""


def keys_per_transaction(keys: int, width: int, stored: int, in_their_shards: int) -> int:
    """How many sorted keys to write at once.

    Args:
        keys: how many there are in all.
        width: bytes of each.
        stored: entries of the index.
        in_their_shards: entries of the shards that the keys are in: of few shards, where a large commit comes section by section.
    """
    scattered = min(max(stored // _TRANSACTIONS_PER_INDEX, _MIN_KEYS_PER_TRANSACTION), MAX_KEYS_PER_TRANSACTION)
    most = min(_MOST_CLOSE_TOGETHER, _MOST_BYTES_TOGETHER // max(width, 1))
    close_together = min(_ENTRIES_PER_TRANSACTION * keys // max(in_their_shards, 1), most)
    return max(scattered, close_together)
