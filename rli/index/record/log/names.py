"""What the numbers of entries mean: columns of names, of which only the named parts are read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.errors import CorruptIndexError
from rli.index.record.log.record import LogRecord

_SHOWN: Final = 5
"""Numbers in a message."""

_SCATTERED: Final = 16
"""Numbers that lie further apart than this on average are sorted; of others a table of flags is made."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the numbers of a run of log records mean.

    Attributes:
        instants: by commit sequence, from the first one of the run.
        partition_paths, file_ids: by file-group number, from the first one of the run.
    """

    instants: pa.StringArray
    partition_paths: pa.StringArray
    file_ids: pa.StringArray

    @classmethod
    def of(cls, records: Sequence[LogRecord]) -> Names:
        """The names that these records introduce."""
        groups = [group for record in records for group in record.file_groups]
        return cls(
            pa.array([instant for record in records for instant in record.located_at], pa.string()),
            pa.array([group.partition_path for group in groups], pa.string()),
            pa.array([group.file_id for group in groups], pa.string()),
        )


def names_of(
    numbers: NDArray[Any],
    firsts: Sequence[int],
    read: Callable[[Sequence[int]], Sequence[Names]],
    columns: Sequence[Callable[[Names], pa.StringArray]],
) -> list[pa.StringArray]:
    """The names of each number (shape (n,), any integer type), from runs without gaps between their numbers.

    Args:
        numbers: each is in one of the runs.
        firsts: for each run the number of its first name, ascending.
        read: the runs at some places; called once, with the places that have any of the numbers.
        columns: each of a run, by its numbers.

    Returns:
        For each of the columns an array of shape (n,).

    Raises:
        CorruptIndexError: a number is in none of the runs.
    """
    if not len(numbers):
        return [pa.array([], pa.string()) for _ in columns]
    places, positions, codes = _found_in(numbers.astype(np.int64), firsts)
    runs, row_of = read(places), pa.array(codes)
    try:
        return [
            pa.concat_arrays([column(run).take(some) for run, some in zip(runs, positions, strict=True)]).take(row_of)
            for column in columns
        ]
    except pa.ArrowIndexError as error:
        raise CorruptIndexError(
            f"the checkpoint of the index's commit log is damaged: numbers={np.unique(numbers)[:_SHOWN].tolist()}",
            remedy="bootstrap the index again",
        ) from error


def _found_in(numbers: NDArray[np.int64], firsts: Sequence[int]) -> tuple[list[int], list[pa.Array], NDArray[np.int64]]:
    """The places of the runs with some numbers, the positions of the distinct numbers in each, and that of each number among all of them."""
    if len(numbers) == 1:
        # A look-up of one key waits for arrays several times as long.
        place = bisect_right(firsts, numbers[0]) - 1
        return [place], [pa.array(numbers - firsts[place])], np.zeros(1, np.int64)
    distinct, codes = _distinct(numbers)
    # Of runs without names, the last one that begins with a number has it.
    place_of = np.searchsorted(firsts, distinct, side="right") - 1
    places, starts = np.unique(place_of, return_index=True)
    read_at = [firsts[place] for place in places.tolist()]
    positions = [pa.array(some - first) for first, some in zip(read_at, np.split(distinct, starts[1:]), strict=True)]
    return places.tolist(), positions, codes


def _distinct(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers that occur, ascending, and the position of each row's number among them."""
    least = int(numbers.min())
    span = int(numbers.max()) - least + 1
    if span > _SCATTERED * len(numbers):
        distinct, codes = np.unique(numbers, return_inverse=True)
        return distinct, codes
    occurs = np.zeros(span, dtype=bool)
    occurs[numbers - least] = True
    return np.flatnonzero(occurs) + least, (np.cumsum(occurs) - 1)[numbers - least]
