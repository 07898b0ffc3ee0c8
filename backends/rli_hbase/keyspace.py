"""Names of rows and columns in the table of an index, versions 1 and 2.

================================== ============== =================================================================
row                                column         cell
================================== ============== =================================================================
shard, encoded key                 e:stamp        entry; the cell's timestamp is its commit sequence
shard, digest of the encoded key   l:stamp, key   the same, for keys that are too wide for a row key
ff ff                              c:g            generation: version byte, 16 random bytes; makes the table an index. In version
                                                  2, a byte follows: the prefix width
ff ff, ``r``, name                 c:stamp        control record (``rli_hbase.control_record``)
ff ff, ``p``, token, number        c:stamp        a piece of a control record that is too large for a cell
ff ff, ``t``                       c:stamp        when the next operation is due (``rli_hbase.ceiling``)
================================== ============== =================================================================

Shards are 2 bytes, entries 8, piece numbers 4, all big-endian. A digest is BLAKE2b of 32 bytes; the whole key is the
column's name, so keys with one digest are two cells of one row. The stamp is the first 4 bytes of the generation: what
a process writes that still believes in a dropped index is never read by the one that took its name. Entries and
control records are in families, that is files, of their own, so it does not matter that the last shard shares its
prefix with the control rows.

In version 2, keys that begin alike share a row, so that they are found together (``rli_hbase.prefix_rows``):

================================== ============== =================================================================
row                                column         cell
================================== ============== =================================================================
shard, first bytes of the key      e:stamp, rest  entry; a key has as many first bytes as the prefix width says
shard, first bytes of the key      l:stamp, rest  the same, of the keys that are a sample (``is_sampled``)
================================== ============== =================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from zlib import crc32

import numpy as np

from rli.store import EncodedKeys

VERSION: Final = 1

VERSION_BY_PREFIX: Final = 2
"""Of an index whose keys are found by how they begin."""

VERSION_BESIDE_HUDI: Final = ord("h")
"""Of a table in which only the third family is used, beside one in Hudi's schema."""

OWN_VERSIONS: Final = (VERSION, VERSION_BY_PREFIX)
"""Of tables in the schema of rli."""

MAX_PREFIX_WIDTH: Final = 255
SAMPLED: Final = 256
"""One key in so many is in the sample."""

RANDOM_BYTES: Final = 16
"""Of a generation."""

ENTRIES: Final = b"e"
LONG: Final = b"l"
CONTROL: Final = b"c"
FAMILIES: Final = (ENTRIES, LONG, CONTROL)

GENERATION_ROW: Final = b"\xff\xff"
GENERATION_COLUMN: Final = CONTROL + b":g"
CEILING_ROW: Final = b"\xff\xfft"

MAX_SHORT_WIDTH: Final = 1024
"""Bytes of the widest key that is part of a row key. HBase takes 32 kB, but the names of its regions contain row keys."""

SHARD_WIDTH: Final = 2
LAST_SHARD: Final = 0xFFFF

_RECORD_PREFIX: Final = b"\xff\xffr"
_PIECE_PREFIX: Final = b"\xff\xffp"
_STAMP_WIDTH: Final = 4
_DIGEST_WIDTH: Final = 32


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one generation of an index.

    Attributes:
        entry: of entries in rows of their own key.
        control: of control records, their pieces and the ceiling.
        long_prefix: what the names of the columns of long keys begin with; the key follows.
    """

    entry: bytes
    control: bytes
    long_prefix: bytes

    @classmethod
    def of(cls, generation: bytes) -> Columns:
        """The columns of the index with this generation (version byte and 16 random bytes)."""
        stamp = generation[1 : 1 + _STAMP_WIDTH]
        return cls(ENTRIES + b":" + stamp, CONTROL + b":" + stamp, LONG + b":" + stamp)


def prefix_width_of(generation: bytes) -> int:
    """By how many first bytes the keys of the index with this generation are found; 0 for whole keys alone."""
    return generation[1 + RANDOM_BYTES] if generation[0] == VERSION_BY_PREFIX else 0


def is_sampled(rest: bytes) -> bool:
    """Whether a key whose bytes behind the first ones are these is in the sample. That never changes: an entry has one place."""
    return crc32(rest) % SAMPLED == 0


def shard_row(shard: int) -> bytes:
    """What the rows of a shard begin with."""
    return shard.to_bytes(SHARD_WIDTH, "big")


def end_of_shard(shard: int) -> bytes | None:
    """The first possible row behind a shard, None behind the last."""
    return None if shard == LAST_SHARD else shard_row(shard + 1)


def short_rows(keys: EncodedKeys) -> list[bytes]:
    """The row of each key, of at most ``MAX_SHORT_WIDTH``."""
    rows = np.empty(len(keys), dtype=[("shard", ">u2"), ("key", f"V{keys.width}")])
    rows["shard"] = keys.shards
    rows["key"] = keys.keys
    packed: list[bytes] = rows.view(f"V{rows.dtype.itemsize}").tolist()
    return packed


def long_rows(keys: EncodedKeys) -> list[bytes]:
    """The row of each key, of any width."""
    return [
        shard_row(shard) + blake2b(key, digest_size=_DIGEST_WIDTH).digest()
        for shard, key in zip(keys.shards.tolist(), keys.to_bytes(), strict=True)
    ]


def record_row(name: str) -> bytes:
    """The row of a control record; also, for a prefix of names, what their rows begin with."""
    return _RECORD_PREFIX + name.encode("ascii")


def name_of_record(row: bytes) -> str:
    """The name of the control record in a row."""
    return row.removeprefix(_RECORD_PREFIX).decode("ascii")


def piece_row(token: bytes, number: int) -> bytes:
    """The row of one piece of the value that a token names."""
    return _PIECE_PREFIX + token + number.to_bytes(4, "big")


def behind(prefix: bytes) -> bytes | None:
    """The first row behind all that begin with a prefix; None if there is no greater row."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def successor(prefix: bytes) -> bytes:
    """The first row behind all that begin with an ASCII-ended ``prefix``."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
