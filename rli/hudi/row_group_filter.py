"""Parquet's own bloom filters: whether a row group may hold a text.

Source of the format: https://github.com/apache/parquet-format/blob/master/BloomFilter.md. Hudi's bloom filter of a
whole file is another one (``rli.hudi.bloom_filter``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

MOST_FILTER_BYTES: Final = 32 * 1024 * 1024
"""A larger filter is not read: nobody writes one, but a forged footer may name one."""

_BLOCK_BYTES: Final = 32
_WORD_BYTES: Final = 4
_SALTS: Final = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
"""Of the words of a block."""

_SIZE_FIELD: Final = 0x15
"""In Thrift's compact protocol: field 1, a number of 32 bits."""

_KNOWN_METHODS: Final = b"\x1c\x1c\x00\x00" * 3 + b"\x00"
"""The rest of a header: split blocks, XXH64, not compressed."""

_MOST_HEADER_BYTES: Final = 32
"""More than any header has: ten bytes at most tell the size."""

_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_MASK: Final = 2**64 - 1
_STRIPE: Final = 32
_LANE: Final = 8


class RowGroupFilter:
    """The bloom filter of one column of a row group: reads its header, and a block of 32 bytes for each text.

    Args:
        read: reads the filter, header and bits, from an offset in it, so many bytes.
        length: of the filter in bytes, as the footer tells it.
    """

    def __init__(self, read: Callable[[int, int], bytes], length: int) -> None:
        self._read = read
        size, self._bits_at = _header(read(0, min(length, _MOST_HEADER_BYTES)), length)
        self._blocks = size // _BLOCK_BYTES

    def may_hold(self, text: str) -> bool:
        """False if the row group does not hold the text; True also for a filter that is damaged or of another kind."""
        if not self._blocks:
            return True
        hashed = xxh64(text.encode())
        block = self._read(self._bits_at + ((hashed >> 32) * self._blocks >> 32) * _BLOCK_BYTES, _BLOCK_BYTES)
        if len(block) < _BLOCK_BYTES:
            return True
        words = (
            int.from_bytes(block[offset : offset + _WORD_BYTES], "little")
            for offset in range(0, _BLOCK_BYTES, _WORD_BYTES)
        )
        low = hashed & 0xFFFFFFFF
        return all(word >> ((low * salt & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, _SALTS, strict=True))


def _header(stored: bytes, length: int) -> tuple[int, int]:
    """How many bytes of bits there are, and where they begin; 0 bytes for a header that is not understood.

    Args:
        stored: how the filter begins.
        length: of the filter.
    """
    if not stored or stored[0] != _SIZE_FIELD:
        return 0, 0
    number, offset = 0, 1
    while offset < len(stored):
        number |= (stored[offset] & 0x7F) << 7 * (offset - 1)
        offset += 1
        if stored[offset - 1] < 0x80:
            break
    size, begin = number >> 1, offset + len(_KNOWN_METHODS)
    is_whole = length >= begin + size and size % _BLOCK_BYTES == 0
    return (size, begin) if is_whole and stored[offset:begin] == _KNOWN_METHODS else (0, 0)


@lru_cache(maxsize=64)
def xxh64(data: bytes) -> int:
    """XXH64 with seed 0: 64 bits. The same few keys are sought in one row group after the other.

    Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
    """
    offset, length = 0, len(data)
    if length >= _STRIPE:
        lanes = [_P1 + _P2 & _MASK, _P2, 0, -_P1 & _MASK]
        while offset + _STRIPE <= length:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], _number(data, offset + _LANE * lane, _LANE))
            offset += _STRIPE
        hashed = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            hashed = (hashed ^ _round(0, lane)) * _P1 + _P4 & _MASK
    else:
        hashed = _P5
    return _mixed(_with_rest(hashed + length & _MASK, data, offset))


def _with_rest(hashed: int, data: bytes, offset: int) -> int:
    """A hash with the bytes that fill no stripe."""
    while offset + _LANE <= len(data):
        hashed = _rotated(hashed ^ _round(0, _number(data, offset, _LANE)), 27) * _P1 + _P4 & _MASK
        offset += _LANE
    if offset + _WORD_BYTES <= len(data):
        hashed = _rotated(hashed ^ _number(data, offset, _WORD_BYTES) * _P1 & _MASK, 23) * _P2 + _P3 & _MASK
        offset += _WORD_BYTES
    for byte in data[offset:]:
        hashed = _rotated(hashed ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    return hashed


def _mixed(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 33) * _P2 & _MASK
    hashed = (hashed ^ hashed >> 29) * _P3 & _MASK
    return hashed ^ hashed >> 32


def _round(lane: int, number: int) -> int:
    return _rotated(lane + number * _P2 & _MASK, 31) * _P1 & _MASK


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK


def _number(data: bytes, offset: int, length: int) -> int:
    return int.from_bytes(data[offset : offset + length], "little")
