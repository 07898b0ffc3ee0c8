r"""The names of everything that an index keeps in Redis.

Every key begins with ``{rli``. The header's key and all others of an index begin with its name, so that an ACL can name
them: ``~{rli}index:<name>`` and ``~{rli<name>/*``. An index has an id of three random characters, so that one that was
dropped and made again has other keys. The hash tag ``{rli<name>/<id><shard>}`` keeps all that belongs to a shard in one slot
of a Redis Cluster. A byte of a bucket's name is paid for by its twenty entries: with up to 64 shards and a name of up to
seven characters the bucket's name takes an allocation of 24 bytes.

======================================  =======  ===============================================================
key                                     type     value
======================================  =======  ===============================================================
``{rli}index:<name>``                   string   the header (``rli_redis.lifecycle``)
``{rli<name>/<id>}c``                   hash     name of a control record → value; ``\xff`` → how often they changed
``{rli<name>/<id>}n``                   zset     the names of the control records, in order
``{rli<name>/<id>}t``                   list     tokens of their last changes (8 bytes each), the last one first
``{rli<name>/<id>}f``                   set      ``families``, and each of them (``rli_redis.segment_set``)
``{rli<name>/<id><shard>}``             string   the shard's watermark (``rli_redis.watermarks``)
``{rli<name>/<id><shard>}<width>``      string   the state of a segment (``rli_redis.segments``)
``{rli<name>/<id><shard>}<width>-``     string   the same, while the segment is being removed
``{rli<name>/<id><shard>}<width><no.>`` string   a bucket (``rli_redis.buckets``)
======================================  =======  ===============================================================

``<shard>`` is in base 64, ``<width>`` a varint, ``<no.>`` four bytes, big-endian. Keys of indexes of formats 2 and 3 have no
``<name>/``; ``{rli}id:<id>`` holds the name there, and keeps an id from being given twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

DIGITS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ID_LENGTH: Final = 3
HEADER_TAG: Final = b"rli"
"""The hash tag of headers and ids."""

CONTROL_COUNTER: Final = b"\xff"
"""The field of the hash of control records that counts their changes; no record's name, because those are ASCII."""

_SHARD_BITS: Final = 16
_NUMBER: Final = np.dtype(">u4")
_LINE_END: Final = b"\r\n"


def header_key(name: str) -> bytes:
    """The key that says that there is an index of this name."""
    return f"{{rli}}index:{name}".encode()


def id_key(index_id: str) -> bytes:
    """The key that an id in use holds, of indexes of formats 2 and 3."""
    return f"{{rli}}id:{index_id}".encode()


def key_prefix(name: str) -> str:
    """What distinguishes the keys of an index of this name from those of all others; no name has a slash."""
    return f"{name}/"


def segment_number(width: int, shard: int) -> int:
    """A segment as a member of the set of segments."""
    return width << _SHARD_BITS | shard


def segment_of(number: int) -> tuple[int, int]:
    """Width and shard of a member of the set of segments."""
    return number >> _SHARD_BITS, number & ((1 << _SHARD_BITS) - 1)


def bucket_name_bytes(name: str, width: int) -> int:
    """How long the keys of buckets are, in an index of this name with up to 64 shards."""
    names = Names("i" * ID_LENGTH, key_prefix(name))
    return len(names.segment(width, 0)) + _NUMBER.itemsize


@dataclass(frozen=True, slots=True)
class Names:
    """The keys of one index.

    Attributes:
        index_id: the index's id.
        prefix: what comes before the id; empty in formats 2 and 3.
        hash_key: the key of the hash that decides which bucket a record is in; empty in formats 2 and 3.
        prefix_width: keys whose first so many bytes are alike have few buckets in common; 0 for any buckets.
    """

    index_id: str
    prefix: str = ""
    hash_key: bytes = b""
    prefix_width: int = 0

    @property
    def has_epochs(self) -> bool:
        """Whether watermarks have an epoch (``rli_redis.watermarks``); not in formats 2 and 3."""
        return bool(self.prefix)

    @property
    def control(self) -> bytes:
        return self._own("c")

    @property
    def control_names(self) -> bytes:
        return self._own("n")

    @property
    def control_tokens(self) -> bytes:
        return self._own("t")

    @property
    def segments(self) -> bytes:
        return self._own("f")

    @property
    def tag(self) -> bytes:
        """The hash tag of what belongs to no shard."""
        return f"rli{self.prefix}{self.index_id}".encode()

    def shard_tag(self, shard: int) -> bytes:
        """The hash tag of a shard."""
        digits = DIGITS[shard & 63]
        while shard := shard >> 6:
            digits = DIGITS[shard & 63] + digits
        return self.tag + digits.encode()

    def watermark(self, shard: int) -> bytes:
        """The key of a shard's watermark."""
        return b"{" + self.shard_tag(shard) + b"}"

    def segment(self, width: int, shard: int) -> bytes:
        """The key of a segment's state."""
        return b"{" + self.shard_tag(shard) + b"}" + _varint(width)

    def dropped_segment(self, width: int, shard: int) -> bytes:
        """The key of a segment's state while it is being removed."""
        return self.segment(width, shard) + b"-"

    @property
    def pattern(self) -> bytes:
        """What every key of the index matches, and nothing else does."""
        return b"{" + self.tag + b"*"

    def shard_of(self, key: bytes) -> int | None:
        """The shard that one of the index's keys belongs to; None for what belongs to no shard."""
        digits = key[1 + len(self.tag) : key.index(b"}")].decode()
        shard = 0
        for digit in digits:
            shard = shard << 6 | DIGITS.index(digit)
        return shard if digits else None

    def buckets(self, width: int, shard: int, numbers: NDArray[np.int64]) -> list[bytes]:
        """The keys of some of a segment's buckets."""
        prefix = self.segment(width, shard)
        keys = np.empty(len(numbers), dtype=[("prefix", f"V{len(prefix)}"), ("number", _NUMBER)])
        keys["prefix"] = np.void(prefix)
        keys["number"] = numbers
        return keys.view(f"V{keys.dtype.itemsize}").tolist()

    def packed_bucket_prefix(self, width: int, shard: int) -> bytes:
        """How the keys of a segment's buckets begin as arguments of a command, in the form in which they are sent."""
        prefix = self.segment(width, shard)
        return b"$%d\r\n%b" % (len(prefix) + _NUMBER.itemsize, prefix)

    def _own(self, suffix: str) -> bytes:
        return b"{" + self.tag + b"}" + suffix.encode()


@dataclass(frozen=True, slots=True)
class BucketPrefixes:
    """How the keys of some segments' buckets begin as arguments of a command.

    Attributes:
        lengths: shape (segments,).
        padded: shape (segments, greatest length): each behind as many spaces as it is shorter.
    """

    lengths: NDArray[np.int64]
    padded: NDArray[np.uint8]

    @classmethod
    def of(cls, prefixes: list[bytes]) -> BucketPrefixes:
        """Those that ``Names.packed_bucket_prefix`` gives."""
        lengths = np.fromiter(map(len, prefixes), dtype=np.int64, count=len(prefixes))
        longest = int(lengths.max(initial=0))
        padded = np.frombuffer(b"".join([prefix.rjust(longest) for prefix in prefixes]), dtype=np.uint8)
        return cls(lengths, padded.reshape(len(prefixes), longest))

    def rows(self, some: slice) -> BucketPrefixes:
        """Those of some of the segments."""
        return BucketPrefixes(self.lengths[some], self.padded[some])

    def packed(self, prefix_of: NDArray[np.int64], numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
        """The keys of buckets as arguments of a command, in the form in which they are sent.

        Args:
            prefix_of: shape (n,): which segment each bucket is of.
            numbers: shape (n,): its number there.

        Returns:
            The arguments, one after the other, and where each begins and the last one ends: shape (n + 1,).
        """
        longest = self.padded.shape[1]
        rows = np.empty(len(numbers), dtype=_packed_key(longest))
        rows["prefix"] = self.padded[prefix_of]
        rows["number"] = numbers
        rows["end"] = np.void(_LINE_END)
        width, missing = rows.dtype.itemsize, (longest - self.lengths)[prefix_of]
        if not missing.any():
            return rows.tobytes(), np.arange(0, (len(numbers) + 1) * width, width)
        ends = np.zeros(len(numbers) + 1, dtype=np.int64)
        np.cumsum(width - missing, out=ends[1:])
        is_kept = np.arange(width) >= missing[:, np.newaxis]
        return rows.view(np.uint8).reshape(-1, width)[is_kept].tobytes(), ends


@lru_cache(maxsize=256)
def _packed_key(prefix_width: int) -> np.dtype[np.void]:
    return np.dtype([("prefix", np.uint8, prefix_width), ("number", _NUMBER), ("end", f"V{len(_LINE_END)}")])


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
