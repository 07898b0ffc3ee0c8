"""The bloom filter of record keys in the footer of a base file, in the bytes that Hudi reads and writes.

The bytes are those of Hadoop's ``BloomFilter``, big-endian and base64 in the footer: int32 version -1, int32 number
of hashes, byte 1 (Murmur), int32 number of bits, then the bits (bit p is bit p & 7 of byte p >> 3). A
``DYNAMIC_V0`` filter is a row of such filters: the same head, int32 capacity of a row, int32 keys in the last row,
int32 number of rows, then each row with its own head; a key is in it if it is in any row. rli writes this type, mostly of
one row, into base files: Hudi's build of ``bloom_filters`` takes the type of all filters from an option, and this is its
default. The bytes tell the type by themselves, as no length fits both, so a wrong name does no harm here.

The positions of a key are a chain: every hash is seeded with the one before, so the work is vectorised over keys
of one length and not over hashes.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.lengths import by_length
from rli.errors import CorruptTableError

FILTER_KEY: Final = "org.apache.hudi.bloomfilter"
TYPE_KEY: Final = "hoodie_bloom_filter_type_code"

HUDIS_FALSE_POSITIVE_RATE: Final = 1e-9
"""By default, of Hudi's writers."""

FALSE_POSITIVE_RATE: Final = 1e-3
"""Of filters that no index of ours reads: they are half as large, and other readers can use them all the same."""

_HEAD: Final = struct.Struct(">iibi")
_DYNAMIC_HEAD: Final = struct.Struct(">iibiiii")
_VERSION: Final = -1
_MURMUR: Final = 1
MOST_BITS: Final = 2**28
"""Of filters that rli makes: Arrow reads no footer with a text of more than 100 MB. In a file with more than 6 million
records (13 million in tables whose index reads no filters) a filter claims more foreign keys than it is to claim."""

_MAX_HASHES: Final = 64
"""Filters of any useful false-positive rate have fewer: 64 hashes stand for a rate of 5e-20."""

_CHUNK_BYTES: Final = 1 << 19

_BITS_AT_ONCE: Final = 200
"""So many bits are packed in the time in which one is set by itself."""

_FEW_KEYS: Final = 8
"""Up to that many keys of one length are hashed one by one."""

_M: Final = np.uint32(0x5BD1E995)

_HASHES_AT_ONCE: Final = 10
"""Of each key that is tested in many filters. A filter turns nearly all foreign keys away by fewer."""


class _Kind(StrEnum):
    SIMPLE = "SIMPLE"
    DYNAMIC = "DYNAMIC_V0"


class HashedKeys:
    """Record keys to be tested in many filters: each is hashed once, although filters differ in size.

    Args:
        keys: string array, shape (n,), without nulls.
    """

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys
        self._hashes = np.empty((_HASHES_AT_ONCE, len(keys)), np.uint32)
        for places, matrix in by_length(keys, _CHUNK_BYTES):
            self._hashes[:, places] = _hashes(matrix, _HASHES_AT_ONCE)

    def claimed_by(self, bloom_filter: BloomFilter, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those places (rising, shape (m,)) of keys that a filter claims."""
        found = [self._claimed_by_row(row, bloom_filter, places) for row in bloom_filter.rows]
        left = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        if bloom_filter.hash_count <= _HASHES_AT_ONCE or not len(left):
            return left
        return left[bloom_filter.might_contain(self.keys.take(pa.array(left)))]

    def _claimed_by_row(
        self, row: NDArray[np.uint8], bloom_filter: BloomFilter, places: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Those whose first bits are all set in a row."""
        left, bits = places, np.uint32(bloom_filter.bit_count)
        for hashes in self._hashes[: bloom_filter.hash_count]:
            # Each bit turns away half of the foreign keys or more.
            positions = hashes[left] % bits
            left = left[(row[positions >> 3] & _masks(positions)) != 0]
            if not len(left):
                break
        return left


@dataclass(slots=True)
class BloomFilter:
    """A set of record keys that may claim keys it does not hold, but never denies one it holds.

    Attributes:
        hash_count: positions of a key.
        bit_count: bits of a row.
        rows: uint8, shape (rows, bytes of a row); one row in filters that rli makes.
    """

    hash_count: int
    bit_count: int
    rows: NDArray[np.uint8]

    @classmethod
    def create(
        cls, capacity: int, false_positive_rate: float = HUDIS_FALSE_POSITIVE_RATE, most_hashes: int | None = None
    ) -> Self:
        """An empty filter.

        Args:
            capacity: keys that it holds at that rate; 0 counts as 1.
            false_positive_rate: share of foreign keys that it claims when full, above 0 and below 1.
            most_hashes: of each key; as many as make the filter smallest by default. Fewer take less time.
        """
        count = max(capacity, 1)
        bit_count = min(math.ceil(count * -math.log(false_positive_rate) / math.log(2) ** 2), MOST_BITS)
        hash_count = math.ceil(math.log(2) * bit_count / count)
        if most_hashes is not None and hash_count > most_hashes:
            hash_count = most_hashes
            bits = math.ceil(-hash_count * count / math.log1p(-(false_positive_rate ** (1 / hash_count))))
            bit_count = min(bits, MOST_BITS)
        return cls(hash_count, bit_count, np.zeros((1, _byte_count(bit_count)), np.uint8))

    def room(self, false_positive_rate: float) -> int:
        """About how many more keys fit before the filter claims a greater share of foreign keys; negative if it does by now.

        Where no filter can be made that claims so few: before half of its bits are set, 0 if they are.
        """
        if len(self.rows) > 1:
            return 0
        is_largest = self.bit_count >= MOST_BITS
        full = false_positive_rate ** (1 / self.hash_count)
        capacity = self._keys_that_set(max(full, 0.5) if is_largest else full)
        room = math.floor(capacity - self._keys_that_set(int(np.bitwise_count(self.rows).sum()) / self.bit_count))
        return max(0, room) if is_largest else room

    def _keys_that_set(self, share: float) -> float:
        """About how many keys set so large a share of the bits."""
        unset = max(1 - share, 1 / self.bit_count)
        return -self.bit_count / self.hash_count * math.log(unset)

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add record keys, in any order, repeated ones too; nulls are passed over.

        Cheapest with many keys at once: such a call takes a byte of memory for every bit of a row.
        """
        if not len(keys):
            return
        if len(keys) * self.hash_count * _BITS_AT_ONCE < self.bit_count:
            for _, positions in self._positions(keys):
                np.bitwise_or.at(self.rows[-1], positions >> 3, _masks(positions))
            return
        marked = np.zeros(self.bit_count, np.bool_)
        for _, positions in self._positions(keys):
            marked[positions] = True
        self.rows[-1] |= np.packbits(marked, bitorder="little")

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
        """For each key whether the filter claims it, shape (n,), in input order; False for nulls."""
        claimed = np.zeros(len(keys), np.bool_)
        for places, positions in self._positions(keys):
            bits = (self.rows[:, positions >> 3] & _masks(positions)) != 0
            claimed[places] = bits.all(axis=2).any(axis=0)
        return claimed

    def to_footer(self) -> dict[str, str]:
        """The footer's entries for this filter, as type ``DYNAMIC_V0``."""
        # A writer that adds keys begins a row of its own, as the last one counts as full.
        full = max(1, round(math.log(2) * self.bit_count / self.hash_count))
        rows = len(self.rows)
        head = _DYNAMIC_HEAD.pack(_VERSION, self.hash_count, _MURMUR, self.bit_count, full, full, rows)
        content = head + b"".join(map(self._to_bytes, self.rows))
        return {FILTER_KEY: base64.b64encode(content).decode("ascii"), TYPE_KEY: _Kind.DYNAMIC}

    def to_simple(self) -> bytes:
        """The filter as a footer holds one of type ``SIMPLE``, in base64; several rows become one that claims more."""
        return base64.b64encode(self._to_bytes(np.bitwise_or.reduce(self.rows, axis=0)))

    def _to_bytes(self, row: NDArray[np.uint8]) -> bytes:
        return _HEAD.pack(_VERSION, self.hash_count, _MURMUR, self.bit_count) + row.tobytes()

    @classmethod
    def from_footer(cls, metadata: Mapping[bytes, bytes], file_name: str) -> Self | None:
        """The filter of a base file, of either type whatever the name of the type says.

        Args:
            metadata: key-values of the footer.
            file_name: named in errors.

        Returns:
            None if the footer has none.

        Raises:
            CorruptTableError: there is one, but of an unknown type or damaged.
        """
        text = metadata.get(FILTER_KEY.encode())
        if text is None:
            return None
        try:
            _Kind(metadata.get(TYPE_KEY.encode(), _Kind.SIMPLE.encode()).decode())
            content = base64.b64decode(text, validate=True)
            return cls(*(_parse_simple(content) if _is_simple(content) else _parse_dynamic(content)))
        except (ValueError, binascii.Error, struct.error) as error:
            raise CorruptTableError(
                f"the bloom filter of a base file cannot be read: file={file_name} ({error})",
                remedy="rewrite the file, for example by updating one of its records",
            ) from error

    def _positions(self, keys: pa.Array | pa.ChunkedArray) -> Iterator[tuple[NDArray[np.intp], NDArray[np.int64]]]:
        array = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        for places, matrix in by_length(array, _CHUNK_BYTES):
            yield places, _bit_positions(matrix, self.hash_count, self.bit_count)


def _byte_count(bit_count: int) -> int:
    return (bit_count + 7) // 8


def _masks(positions: NDArray[np.integer]) -> NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (positions & 7).astype(np.uint8))


def _bit_positions(matrix: NDArray[np.uint8], hash_count: int, bit_count: int) -> NDArray[np.int64]:
    """Positions of keys of one length, shape (n, hash_count)."""
    hashes = _hashes(matrix, hash_count)
    # numpy divides by one number in the time of two multiplications, but takes remainders one by one.
    bits = np.uint32(bit_count)
    return (hashes - hashes // bits * bits).astype(np.int64).T


def _hashes(matrix: NDArray[np.uint8], hash_count: int) -> NDArray[np.uint32]:
    """The absolute values of the hashes of keys of one length, shape (hash_count, n)."""
    words, tail = _mixed_words(matrix), _tail(matrix)
    values = np.zeros((hash_count + 1, len(matrix)), np.uint32)
    for number in range(hash_count):
        values[number + 1] = _murmur2(words, tail, matrix.shape[1], values[number])
    # Java's remainder has the sign of the dividend, so its absolute value is the remainder of the absolute value.
    return np.abs(values[1:].view(np.int32)).view(np.uint32)


def _mixed_words(matrix: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The whole words of each key, mixed as Murmur2 does whatever the seed, shape (words, n)."""
    whole = matrix.shape[1] & ~3
    # Always a copy: the matrix may be a view of the caller's column.
    words = np.array(np.ascontiguousarray(matrix[:, :whole]).view("<u4").T, np.uint32, order="C")
    words *= _M
    words ^= words >> np.uint32(24)
    words *= _M
    return words


def _tail(matrix: NDArray[np.uint8]) -> NDArray[np.uint32] | None:
    """The bytes after the last whole word of each key, None if there are none.

    Hadoop takes them from the end of the key, each byte sign-extended.
    """
    length = matrix.shape[1]
    if length % 4 == 0:
        return None
    signed = matrix[:, length & ~3 :].view(np.int8).astype(np.int32).view(np.uint32)
    tail = signed[:, -1].copy()
    for distance in range(2, length % 4 + 1):
        tail ^= signed[:, -distance] << np.uint32(8 * (distance - 1))
    return tail


def _murmur2(
    words: NDArray[np.uint32], tail: NDArray[np.uint32] | None, length: int, seeds: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    value = seeds ^ np.uint32(length)
    value = _absorb(value, words) if len(value) > _FEW_KEYS else _absorb_few(value, words)
    if tail is not None:
        value ^= tail
        value *= _M
    value ^= value >> np.uint32(13)
    value *= _M
    value ^= value >> np.uint32(15)
    return value


def _absorb(values: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    for word in words:
        values *= _M
        values ^= word
    return values


def _absorb_few(values: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The same key by key: for a few keys, the calls that ``_absorb`` makes for each word cost more than the work."""
    multiplier = int(_M)
    absorbed = []
    for value, key_words in zip(values.tolist(), words.T.tolist(), strict=True):
        for word in key_words:
            value = (value * multiplier & 0xFFFF_FFFF) ^ word  # noqa: PLW2901  (runs through the words)
        absorbed.append(value)
    return np.array(absorbed, np.uint32)


def _is_simple(content: bytes) -> bool:
    """Whether the length is that of one row without a head of all rows."""
    *_, bit_count = _HEAD.unpack_from(content)
    return len(content) == _HEAD.size + _byte_count(bit_count)


def _parse_simple(content: bytes) -> tuple[int, int, NDArray[np.uint8]]:
    hash_count, bit_count, row = _parse_row(content)
    return hash_count, bit_count, row[np.newaxis].copy()


def _parse_dynamic(content: bytes) -> tuple[int, int, NDArray[np.uint8]]:
    version, hash_count, hash_type, bit_count, _, _, row_count = _DYNAMIC_HEAD.unpack_from(content)
    _check_head(version, hash_count, hash_type, bit_count)
    size = _HEAD.size + _byte_count(bit_count)
    if row_count < 1 or len(content) != _DYNAMIC_HEAD.size + row_count * size:
        raise ValueError(f"length={len(content)} rows={row_count}")
    starts = (_DYNAMIC_HEAD.size + row * size for row in range(row_count))
    rows = [_parse_row(content[start : start + size]) for start in starts]
    if any((hashes, bits) != (hash_count, bit_count) for hashes, bits, _ in rows):
        raise ValueError("the rows differ in shape")
    return hash_count, bit_count, np.stack([row for _, _, row in rows])


def _parse_row(content: bytes) -> tuple[int, int, NDArray[np.uint8]]:
    version, hash_count, hash_type, bit_count = _HEAD.unpack_from(content)
    _check_head(version, hash_count, hash_type, bit_count)
    row = np.frombuffer(content, np.uint8, offset=_HEAD.size)
    if len(row) != _byte_count(bit_count):
        raise ValueError(f"bytes={len(row)} bits={bit_count}")
    return hash_count, bit_count, row


def _check_head(version: int, hash_count: int, hash_type: int, bit_count: int) -> None:
    if version != _VERSION or hash_type != _MURMUR or not 1 <= hash_count <= _MAX_HASHES or bit_count < 1:
        raise ValueError(f"version={version} hashes={hash_count} hash_type={hash_type} bits={bit_count}")
