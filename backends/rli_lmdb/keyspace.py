"""Names and formats inside the environment, version 1.

========== ============================= =====================================================================
database   key                           value
========== ============================= =====================================================================
keys/<w>   shard                         duplicates, sorted: encoded key of <w> bytes, entry
keys/long  shard, digest of the key      entry, encoded key; for keys that are too wide for a duplicate
control    name                          the control record
meta       ``generation``                version byte, 16 random bytes of this index; its presence makes the index
meta       ``tombstones``                how many entries are tombstones
meta       ``floor``                     up to which sequence tombstones may be gone, and entries are not written
========== ============================= =====================================================================

Shards are 2 bytes, entries and counts 8 bytes, big-endian; a digest is BLAKE2b of 32 bytes. Duplicates of fixed
size are stored without any header, which is why the shard is the key and everything else the duplicate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.store import ENTRY_WIDTH, Entries

VERSION: Final = 1

CONTROL: Final = b"control"
META: Final = b"meta"
LONG: Final = b"keys/long"

GENERATION: Final = b"generation"
TOMBSTONES: Final = b"tombstones"
FLOOR: Final = b"floor"

MAX_DUPLICATE_WIDTH: Final = 511
"""The most that LMDB, as it is usually built, takes as a duplicate."""

MAX_FIXED_WIDTH: Final = MAX_DUPLICATE_WIDTH - ENTRY_WIDTH
"""Bytes of the widest key that is kept as a duplicate."""

MAX_DATABASES: Final = MAX_FIXED_WIDTH + 3

SHARD_WIDTH: Final = 2
COUNT_WIDTH: Final = 8
DIGEST_WIDTH: Final = 32

KEY_WORD: Final = np.dtype(">u8")
"""Eight bytes of a key, as a number that compares as they do."""

_FIXED_NAME: Final = re.compile(rb"keys/([0-9]{1,3})")


def fixed_name(width: int) -> bytes:
    """Database of the keys of ``width`` bytes, at most ``MAX_FIXED_WIDTH``."""
    return b"keys/%d" % width


def width_of(name: bytes) -> int | None:
    """Width of the keys in a database, None where it is not one of fixed width."""
    match = _FIXED_NAME.fullmatch(name)
    return int(match[1]) if match else None


def is_ours(name: bytes) -> bool:
    """Whether a database of this name belongs to the format."""
    return name in {CONTROL, META, LONG} or width_of(name) is not None


def shard_bytes(shards: NDArray[np.uint16]) -> list[bytes]:
    """Each shard as a key."""
    keys: list[bytes] = shards.astype(">u2").view(f"V{SHARD_WIDTH}").tolist()
    return keys


def shard_runs(shards: NDArray[np.uint16]) -> Iterator[tuple[int, int]]:
    """Start and stop of each run of equal shards."""
    borders = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
    return ((start, stop) for start, stop in pairwise(borders) if start < stop)


def record_type(width: int) -> np.dtype[np.void]:
    """A duplicate as numpy sees it: fields ``key`` and ``entry``."""
    return np.dtype([("key", f"V{width}"), ("entry", ">u8")])


def pack_records(keys: NDArray[np.void], entries: Entries) -> list[bytes]:
    """The duplicates of keys and their entries."""
    records = np.empty(len(keys), dtype=record_type(keys.dtype.itemsize))
    records["key"] = keys
    records["entry"] = entries
    packed: list[bytes] = records.view(f"V{records.dtype.itemsize}").tolist()
    return packed


def long_key(shard: bytes, key: bytes) -> bytes:
    """Where a key that is too wide for a duplicate is kept."""
    return shard + blake2b(key, digest_size=DIGEST_WIDTH).digest()


def successor(key: bytes) -> bytes | None:
    """The next greater byte string of the same width, None after the greatest."""
    number = int.from_bytes(key, "big") + 1
    return None if number >> (8 * len(key)) else number.to_bytes(len(key), "big")
