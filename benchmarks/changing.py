"""Batches that change what they upsert: an upsert of records that are stored already writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import pyarrow as pa

TURN: Final = "turn"
"""A column whose values differ from one batch to the next."""


def with_turn(rows: pa.Table, turn: int = 0) -> pa.Table:
    """Rows with the same number in the column ``TURN``."""
    return rows.append_column(TURN, pa.repeat(pa.scalar(turn), rows.num_rows))


def turns_of(rows: pa.Table) -> Iterator[pa.Table]:
    """The same rows again and again, each time with another number in the column ``TURN``, from 1 on."""
    return (with_turn(rows, turn) for turn in count(1))
