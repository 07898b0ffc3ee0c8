"""Tallies of record keys: whether two stages of a write had the same ones, told without comparing them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.fingerprints import fingerprints
from rli.codec.record_keys import encode
from rli.errors import VoidAttemptError

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
        return cls.total(cls.of_hashes(fingerprints(keys)) for chunk in chunks for _, keys in encode(chunk))

    @classmethod
    def of_hashes(cls, hashes: NDArray[np.uint64]) -> Tally:
        """The tally of keys, or of rows, with these hashes, shape (n,): the fingerprints of keys, unless told otherwise."""
        return cls(len(hashes), _signed(int(hashes.sum())))

    @classmethod
    def total(cls, tallies: Iterable[Tally]) -> Tally:
        """The tally of the keys of all of them."""
        return sum(tallies, cls())

    @property
    def unsigned(self) -> int:
        """The sum of the hashes, from 0."""
        return self.hashes % _MODULUS

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.keys + other.keys, _signed(self.hashes + other.hashes))


def require_same(done: str, expected: Tally, found: Tally) -> None:
    """Raise ``VoidAttemptError`` if the tasks of a write had other keys than those before them.

    Args:
        done: what they did with the keys.
        expected: the keys of the stage before.
        found: their own.
    """
    if found != expected:
        raise VoidAttemptError(
            f"the tasks of this write have {done} other records than requested: expected={expected} found={found}",
            remedy="nothing was written: write again, and if it happens again, check the storage of the table",
        )


def _signed(number: int) -> int:
    return (number + _SIGN) % _MODULUS - _SIGN
