"""The contract of bounds: what is proven of a column in each of some files or row groups, wherever it is told.

Footers of Parquet files and partition paths give bounds. A source says nothing rather than something it is not sure of:
a file without bounds is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.filters.predicates import Column


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is proven of the values of one column in each of n units.

    A unit is a file or a row group. The bounds need not be values of the column: a text may be cut off below its
    least value, or lie above its greatest one.

    Attributes:
        least: shape (n,): no value of the unit is less; null if this is not known. Its type is the column's type in the
            table; texts are given as their bytes (``pa.binary()``), because a text that was cut off may be no text.
            NaN is outside of all bounds: a column of floating-point numbers may always hold it. A bound that is NaN
            counts as unknown.
        greatest: likewise: no value is greater.
        may_hold_null: shape (n,): False if the unit is known to hold no null.
        may_hold_values: shape (n,): False if the unit is known to hold nulls alone.
    """

    least: pa.Array
    greatest: pa.Array
    may_hold_null: NDArray[np.bool_]
    may_hold_values: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if pa.types.is_floating(self.least.type):
            for name, bound in (("least", self.least), ("greatest", self.greatest)):
                object.__setattr__(self, name, pc.if_else(pc.is_nan(bound), None, bound))

    def part(self, units: slice) -> ColumnBounds:
        """The bounds in units that follow each other."""
        if units == slice(0, len(self.least)):
            return self
        return ColumnBounds(
            self.least[units], self.greatest[units], self.may_hold_null[units], self.may_hold_values[units]
        )


class Bounds(Protocol):
    """The bounds of the columns of some units."""

    @property
    def units(self) -> int:
        """How many units there are."""
        ...

    def of(self, column: Column) -> ColumnBounds | None:
        """The bounds of a column in each unit; None if nothing is known of it."""
        ...


def bound_type(kind: pa.DataType) -> pa.DataType:
    """The type of the bounds of a column."""
    return pa.binary() if is_bytes(kind) else kind


def is_bytes(kind: pa.DataType) -> bool:
    """Whether the values of a type are texts or bytes, which are compared byte by byte."""
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
    )
    return any(test(kind) for test in tests)


def concat_bounds(parts: Sequence[ColumnBounds]) -> ColumnBounds:
    """The bounds of one column in the units of one or more parts."""
    if len(parts) == 1:
        return parts[0]
    return ColumnBounds(
        pa.concat_arrays([part.least for part in parts]),
        pa.concat_arrays([part.greatest for part in parts]),
        np.concatenate([part.may_hold_null for part in parts]),
        np.concatenate([part.may_hold_values for part in parts]),
    )
