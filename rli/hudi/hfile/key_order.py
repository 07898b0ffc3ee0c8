"""The order of keys, in which an HFile holds them: bytewise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import InvalidInputError
from rli.hudi.hfile.words import words

_WORD: Final = 8
"""Bytes of a key that are compared as one number."""

_KEPT: Final = np.array([(1 << 64) - (1 << 8 * (_WORD - length)) for length in range(_WORD + 1)], np.uint64)
"""Of a word: the bits of a key that has so many bytes left."""

_FEW: Final = 2_048
"""Keys that pyarrow sorts in less time than arrays of numbers are made of them."""


def order_of(keys: pa.Array) -> NDArray[np.intp]:
    """The rows of keys in the order of an HFile; those of equal keys as they stand.

    Most keys differ in the bytes behind what all of them begin with. Numbers made of these are sorted several times as fast as
    strings, and only keys whose numbers are equal are compared as a whole.

    >>> order_of(pa.array(["k2", "k10", "k1"])).tolist()
    [2, 1, 0]

    Args:
        keys: string or binary array, shape (n,), without nulls.

    Returns:
        Shape (n,).
    """
    if len(keys) < _FEW:
        return _compared(keys)
    keys = keys.cast(pa.binary())
    least, greatest = pc.min_max(keys).as_py().values()
    if least == greatest:
        return np.arange(len(keys))
    # The greatest goes on where the least ends.
    differing = (place for place, (one, other) in enumerate(zip(least, greatest, strict=False)) if one != other)
    numbers = _numbers(keys, next(differing, len(least)))
    order = np.argsort(numbers)
    numbers = numbers[order]
    is_equal = np.concatenate([[False], numbers[1:] == numbers[:-1], [False]])
    tied = np.flatnonzero(is_equal[1:] | is_equal[:-1])
    if len(tied):
        rows = np.sort(order[tied])
        order[tied] = rows[_compared(keys.take(pa.array(rows)))]
    return order


def _compared(keys: pa.Array) -> NDArray[np.intp]:
    return pc.array_sort_indices(keys).to_numpy().astype(np.intp)


def _numbers(keys: pa.Array, skipped: int) -> NDArray[np.uint64]:
    """Bytes of each key behind some that are skipped, as a number; zeros stand for those that are missing."""
    _, offsets_buffer, data = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(keys) + 1, offset=4 * keys.offset).astype(np.int64)
    start = offsets[0]
    octets = np.frombuffer(data, np.uint8)[start : offsets[-1]]
    found = words(np.append(octets, np.zeros(_WORD, np.uint8)), _WORD)[offsets[:-1] + skipped - start].astype(np.uint64)
    return found & _KEPT[np.minimum(np.diff(offsets) - skipped, _WORD)]


def check_order(keys: pa.Array, before: bytes | None = None, starts: Sequence[int] = ()) -> None:
    """Check that no key is null or less than the one before.

    Args:
        keys: binary.
        before: the key before the first; None if there is none.
        starts: rows from 1, and the number of rows, from which on the keys of another file begin, in an order of their own.

    Raises:
        InvalidInputError: one is.
    """
    if keys.null_count:
        raise InvalidInputError("a key of an HFile is null", remedy="give each cell a key", row=_first(keys.is_null()))
    if not len(keys):
        return
    if before is not None and keys[0].as_py() < before:
        raise _out_of_order(0)
    is_less = np.append(pc.less(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False), False)
    is_less[np.array(starts, np.intp) - 1] = False
    if is_less.any():
        raise _out_of_order(int(is_less.argmax()) + 1)


def _first(flags: pa.BooleanArray) -> int:
    return int(pc.index(flags, True).as_py())


def _out_of_order(row: int) -> InvalidInputError:
    return InvalidInputError(
        f"the keys of an HFile are out of order: row={row}", remedy="sort them bytewise before the call", row=row
    )
