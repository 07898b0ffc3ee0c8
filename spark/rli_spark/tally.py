"""Tallies of record keys: whether two stages of a write had the same ones, told without comparing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rli.codec.fingerprints import fingerprints
from rli.codec.record_keys import encode

_MODULUS: Final = 1 << 64
_SIGN: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Tally:
    """Number of some record keys, and the sum of their hashes, in which their order makes no difference.

    Attributes:
        keys: how many; a repeated one counts each time.
        hashes: modulo 2⁶⁴, as a signed number.
    """

    keys: int = 0
    hashes: int = 0

    @classmethod
    def of(cls, record_keys: pa.Array | pa.ChunkedArray) -> Tally:
        """The tally of a string array without nulls, shape (n,)."""
        chunks = record_keys.chunks if isinstance(record_keys, pa.ChunkedArray) else [record_keys]
        hashes = sum(int(fingerprints(keys).sum()) for chunk in chunks for _, keys in encode(chunk))
        return cls(len(record_keys), _signed(hashes))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.keys + other.keys, _signed(self.hashes + other.hashes))


def _signed(number: int) -> int:
    return (number + _SIGN) % _MODULUS - _SIGN
