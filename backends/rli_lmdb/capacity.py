"""What an index costs an LMDB file: computed from LMDB's pages, checked against files that were really built.

A page of sorted records is cut in halves when it is full. So pages are full after a bulk load, two thirds full after many
random insertions, and half full when the first random keys have come behind a bulk load: that is the most that an index
takes. Beside the pages in use, LMDB keeps those that the last two transactions replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from rli.store import ENTRY_WIDTH, Capacity
from rli_lmdb.keyspace import DIGEST_WIDTH, MAX_FIXED_WIDTH, SHARD_WIDTH
from rli_lmdb.transactions import keys_per_transaction

SHARDS: Final = 64
"""Shards of an index unless its maker says otherwise."""

_PAGE: Final = 4096
_PAGE_HEADER: Final = 16
_ROOM: Final = _PAGE - _PAGE_HEADER
_NODE_HEADER: Final = 8 + 2
"""Of an item of a page, with its pointer; fixed-size duplicates in a leaf have none."""

_LARGEST_NODE: Final = 2038
_OVERFLOW_POINTER: Final = 8
_FIXED_PAGES: Final = 24
"""Of an empty index."""

_TRANSACTIONS_ASIDE: Final = 2
_LOADED, _GROWN, _SPLIT = 1.0, math.log(2), 0.5
_ONE_MACHINE: Final = 64 << 30


def estimate(entries: int, key_width: int) -> Capacity:
    """The most that an index takes; the advice names what it takes after a bulk load and in the long run."""
    most, grown, loaded = (bytes_per_entry(entries, key_width, fill) for fill in (_SPLIT, _GROWN, _LOADED))
    range_of_sizes = (
        f"plan for {most:,.0f} bytes an entry: about {loaded:,.0f} after a bulk load or with keys that come in their order, "
        f"about {grown:,.0f} in the long run with random keys, the most when small batches follow a bulk load"
    )
    advice = [
        range_of_sizes,
        "look-ups are fast while the file fits into the page cache: give the machine that much free memory",
    ]
    if entries * most > _ONE_MACHINE:
        advice.append("this is large for a single machine: consider redis+cluster or hbase")
    return Capacity(most, "disk", 1, tuple(advice))


@dataclass(frozen=True, slots=True)
class _Shape:
    """How records of one key width lie in pages.

    Attributes:
        per_leaf: records in a full leaf.
        per_branch: leaves below a full branch page.
        overflow_pages: pages of a record beside those.
    """

    per_leaf: int
    per_branch: int
    overflow_pages: int

    @classmethod
    def of(cls, key_width: int) -> _Shape:
        record = key_width + ENTRY_WIDTH
        if key_width <= MAX_FIXED_WIDTH:
            return cls(_ROOM // record, _ROOM // (_NODE_HEADER + record), 0)
        key = SHARD_WIDTH + DIGEST_WIDTH
        node, overflow = _NODE_HEADER + key + record, 0
        if node > _LARGEST_NODE:
            node, overflow = _NODE_HEADER + key + _OVERFLOW_POINTER, -(-(_PAGE_HEADER + record) // _PAGE)
        return cls(_ROOM // node, _ROOM // (_NODE_HEADER + key), overflow)


def bytes_per_entry(entries: int, key_width: int, fill: float) -> float:
    """Bytes of the file an entry takes.

    Args:
        entries: of the index.
        key_width: bytes of an encoded key.
        fill: how full leaves are. At 1 the index was loaded at once; else batches of random keys came, too.
    """
    shape = _Shape.of(key_width)
    # Records under a digest come in random order even in a bulk load.
    fill = fill if key_width <= MAX_FIXED_WIDTH else min(fill, _GROWN)
    shards = min(SHARDS, entries) if key_width <= MAX_FIXED_WIDTH else 1
    leaves = shards * max(1.0, entries / shards / (shape.per_leaf * fill))
    # Each shard is a tree of its own, with a root above its leaves.
    branches = max(shards, leaves / (max(shape.per_branch * fill, 2) - 1)) if leaves > shards else 0.0
    aside = 0.0
    if fill < _LOADED:
        written = min(entries, keys_per_transaction(1, key_width, entries, entries))
        touched = leaves * -math.expm1(-written / leaves)
        aside = _TRANSACTIONS_ASIDE * (touched * (1 + branches / leaves) + written * shape.overflow_pages)
    return _PAGE * (_FIXED_PAGES + leaves + branches + aside + entries * shape.overflow_pages) / entries
