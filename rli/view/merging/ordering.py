"""Ordering values in a form that Arrow and NumPy compare in Java's order, as Hudi does."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import UnsupportedTableError

_SIGN_LESS: Final = {pa.float32(): (np.int32, np.int32(0x7FFFFFFF)), pa.float64(): (np.int64, np.int64(2**63 - 1))}


def comparable(values: pa.Array) -> pa.Array:
    """Ordering values as integers, or unchanged if Arrow orders them as Java does. Null, which only deletes have, is least.

    Floating-point numbers are ordered by their bits: -0.0 is less than 0.0, and NaN is greatest.

    Args:
        values: of any type that Hudi orders records by.
    """
    kind = values.type
    if kind in _SIGN_LESS:
        whole, mask = _SIGN_LESS[kind]
        numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
        # Java knows one NaN; the processor makes others, with a sign.
        bits = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers).view(whole)
        # The greater the magnitude of a negative number, the less it is.
        ordered = bits ^ ((bits >> np.array(bits.itemsize * 8 - 1, whole)) & mask)
        found = pa.array(ordered.astype(np.int64), mask=values.is_null().to_numpy(zero_copy_only=False))
    elif pa.types.is_temporal(kind):
        found = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        found = values.cast(pa.int64())
    else:
        found = values
    return found


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """The type of ``comparable`` values."""
    # Not from a list: that would import pandas.
    return comparable(pa.nulls(0, kind)).type


def ranks(values: pa.Array) -> NDArray[np.int64]:
    """Numbers in the order of comparable values, shape (n,). If there is a null, its number is 0, and others begin at 1."""
    if not values.null_count and pa.types.is_integer(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    ranked = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    found: NDArray[np.int64] = ranked.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(values.is_null().to_numpy(zero_copy_only=False), 0, found)


def is_at_least(newer: pa.Array, older: pa.Array) -> NDArray[np.bool_]:
    """Whether each comparable value is no less than another one, shape (n,); not if either is null."""
    return np.asarray(pc.fill_null(pc.greater_equal(newer, older), False).to_numpy(zero_copy_only=False))


def require_known(values: pa.Array) -> None:
    """Pass ordering values of records without a null: releases of Hudi fail on such records, or merge them differently.

    Raises:
        UnsupportedTableError: one is null.
    """
    if values.null_count:
        raise UnsupportedTableError(
            f"a record in a log file, or a record that log files change, has no ordering value: records={values.null_count}",
            remedy="give each record one with Hudi and compact the table, or read it with query='read_optimized'",
        )
