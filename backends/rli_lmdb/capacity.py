"""What an index costs an LMDB file: measured with a million keys of 16 bytes that came in 20 batches."""

from __future__ import annotations

from typing import Final

from rli.store import ENTRY_WIDTH, Capacity

# 38.5 bytes of file for the 24 of a UUID and its entry; pages are two thirds full after random insertions, and those
# of the last transactions are set aside.
_FILE_BYTES_PER_BYTE: Final = 1.6
_ONE_MACHINE: Final = 64 << 30


def estimate(entries: int, key_width: int) -> Capacity:
    """The cost of an index in the long run; one that is loaded at once takes two thirds of it."""
    each = _FILE_BYTES_PER_BYTE * (key_width + ENTRY_WIDTH)
    advice = ["look-ups are fast while the file fits into the page cache: give the machine that much free memory"]
    if entries * each > _ONE_MACHINE:
        advice.append("this is much for one machine: consider redis+cluster or hbase")
    return Capacity(each, "disk", 1, tuple(advice))
