"""Places in the encodings of many records, which move on together: a value of each record is one step."""

from __future__ import annotations

from copy import copy
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.log_file.form import damaged

Numbers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = "NDArray[np.bool_] | None"
"""Rows that have a value; None if all have."""

_PADDING: Final = 16
"""Bytes before and behind the records, so that words may be read around the first and the last one."""

_LARGEST: Final = 2**31
_WORD_BYTES: Final = 8
_WORD_BITS: Final = 64
_GOES_ON: Final = np.uint64(0x8080808080808080)
"""The bit of each byte of a number that says that another byte follows."""

_DIGITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE: Final = np.uint64(1)
_STEPS: Final = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
"""Move groups of 7, 14 and 28 bits next to each other."""


class Rows:
    """Places of the next values.

    Args:
        content: of a block, with 16 bytes before the first record and behind the last.
        places: where each record begins, in order.
        ends: where each ends, before the next begins.
    """

    def __init__(self, content: bytes, places: Numbers, ends: Numbers) -> None:
        self.buffer = pa.py_buffer(content)
        self.places = places
        self.ends = ends
        self._bytes = np.frombuffer(content, np.uint8)
        # A word for each byte of the content.
        count = len(content) - _WORD_BYTES + 1
        self._words = np.lib.stride_tricks.as_strided(self._bytes[:_WORD_BYTES].view("<u8"), (count,), (1,))

    def chosen(self, rows: NDArray[np.intp]) -> Self:
        """Some of the rows, whose places move by themselves."""
        chosen = copy(self)
        chosen.places, chosen.ends = self.places[rows], self.ends[rows]
        return chosen

    def bytes(self, mask: Mask) -> NDArray[np.uint8]:
        """The next byte of each row that has a value; of the others, any."""
        found = self._bytes[self.places]
        self.move(1, mask)
        return found

    def words(self, size: int, mask: Mask) -> NDArray[np.uint64]:
        """The next bytes of each row as a number, the lowest first; higher bytes of the word are any.

        Args:
            size: of the value, up to 8.
            mask: rows that have one.
        """
        found = self._words[self.places]
        self.move(size, mask)
        return found

    def numbers(self, mask: Mask) -> Numbers:
        """The next number of each row; 0 where there is none.

        Raises:
            CorruptTableError: a number does not end in its record, or has more than 64 bits.
        """
        words = self._words[self.places]
        ends = ~words & _GOES_ON
        if (ends & np.uint64(0x80)).all():
            value, sizes = words & np.uint64(0x7F), np.ones(len(words), np.int64)
        else:
            # All bits up to the first byte with which a number ends; all bits of the word if none does.
            lowest = ends & (~ends + _ONE)
            below = lowest | (lowest - _ONE)
            sizes = (np.bitwise_count(below) >> 3).astype(np.int64)
            value = words & below & _DIGITS
            for low, high, shift in _STEPS:
                value = value & low | (value & high) >> shift
            if not ends.all():
                self._complete(value, sizes, np.flatnonzero(ends == 0 if mask is None else (ends == 0) & mask))
        signed = (value >> _ONE).view(np.int64) ^ -(value & _ONE).view(np.int64)
        self.move(sizes, mask)
        return signed if mask is None else np.where(mask, signed, 0)

    def _complete(self, value: NDArray[np.uint64], sizes: Numbers, long: NDArray[np.intp]) -> None:
        """Add what the numbers of nine and ten bytes have beyond a word."""
        ninth = self._bytes[self.places[long] + _WORD_BYTES].astype(np.uint64)
        tenth = self._bytes[self.places[long] + _WORD_BYTES + 1].astype(np.uint64)
        goes_on = ninth > 0x7F
        if (goes_on & (tenth > 1)).any():
            raise damaged("a number of more than 64 bits")
        value[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | np.where(goes_on, tenth, 0).astype(
            np.uint64
        ) << np.uint64(63)
        sizes[long] = _WORD_BYTES + 1 + goes_on

    def spans(self, mask: Mask) -> Numbers:
        """Lengths of the next byte strings, which the places then stand behind; 0 where there is none.

        Raises:
            CorruptTableError: a string does not end in its record.
        """
        lengths = self.numbers(mask)
        if lengths.min(initial=0) < 0 or lengths.max(initial=0) >= _LARGEST:
            raise damaged("a string of an impossible length")
        self.move(lengths, None)
        return lengths

    def move(self, sizes: Numbers | int, mask: Mask) -> None:
        """Move the places of the rows that have a value.

        Raises:
            CorruptTableError: a record ends before.
        """
        self.places = self.places + (sizes if mask is None else np.where(mask, sizes, 0))
        if (self.places > self.ends).any():
            raise damaged("a record ends within a value")

    def integers(self, lengths: Numbers) -> NDArray[np.int64]:
        """Numbers of 128 bits in front of the places, from two's complement with the highest byte first.

        Args:
            lengths: bytes of each, up to 16; a number without bytes is 0.

        Returns:
            A row for each number: the lower half and the higher half.
        """
        halves = np.empty((len(lengths), 2), np.int64)
        for half, ends in enumerate((self.places, self.places - _WORD_BYTES)):
            words = self._words[np.maximum(ends - _WORD_BYTES, 0)].byteswap().view(np.int64)
            # Bytes in front of the number leave on the left, the sign comes back.
            unused = _WORD_BITS - 8 * np.clip(lengths - half * _WORD_BYTES, 0, _WORD_BYTES)
            kept = (words << np.minimum(unused, _WORD_BITS - 1)) >> np.minimum(unused, _WORD_BITS - 1)
            halves[:, half] = np.where(unused == _WORD_BITS, halves[:, 0] >> (_WORD_BITS - 1) if half else 0, kept)
        return halves


def rows_within(content: bytes, starts: Numbers, ends: Numbers) -> Rows:
    """Rows over some records of a longer content.

    Args:
        content: of a block.
        starts: where each record begins, in order; at least one.
        ends: where each ends.
    """
    begin = starts[0] - _PADDING
    part = b"".join([bytes(_PADDING), content[starts[0] : ends[-1]], bytes(_PADDING)])
    return Rows(part, starts - begin, ends - begin)
