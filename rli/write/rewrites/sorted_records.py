"""Where the records of a clustering go that sorts them: new file groups with narrow ranges of some values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import InvalidInputError
from rli.file_group.write_context import WriteContext
from rli.filters.value_expression import ValueExpression
from rli.view.file_slices import FileSlice

_REACH: Final = 0.5
"""Of a file: for so far a cut is moved, so that no value is in two files."""

_MOST_FOR_EACH: Final = 2
"""New files for each source, above which sources are too large to be left as they are."""


def sorting_of(texts: Sequence[str], schema: pa.Schema) -> tuple[ValueExpression, ...]:
    """The values by which records are sorted.

    Args:
        texts: columns, or expressions over columns.
        schema: of the records.

    Raises:
        InvalidInputError: one is not understood, or its values have no order.
    """
    found = tuple(ValueExpression.of(text, schema) for text in texts)
    for one in found:
        if pa.types.is_nested(one.kind) or pa.types.is_null(one.kind):
            raise InvalidInputError(
                f"the values have no order: sort_by={one.text!r} type={one.kind}",
                remedy="give a number, a time or a string",
            )
    return found


def places_of(
    write: WriteContext, sources: Sequence[FileSlice], sorting: Sequence[ValueExpression], targets: int
) -> NDArray[np.int32] | None:
    """In which new file group each record goes, in the order of the sources: shape (records,); None if they are sorted, or none is left.

    Memory is bounded by the values by which the records are sorted.

    Args:
        write: the write.
        sources: the file slices.
        sorting: the values, the first of which counts first. Nulls and NaN come last.
        targets: how many new file groups there are at most, each for about the same number of records.

    Raises:
        InvalidInputError: a value cannot be computed.
    """
    wanted = {column for one in sorting for column, *_ in one.columns}
    schema = pa.schema([field for field in write.schema if field.name in wanted])
    names = [str(number) for number in range(len(sorting))]
    parts = [pa.table([pa.array([], one.kind) for one in sorting], names)]
    rows = list[int]()
    for source in sources:
        with write.open(source) as reader:
            batches = reader.batches(schema)
            parts += [pa.table([one.of_table(batch) for one in sorting], names) for batch in batches]
        rows.append(sum(part.num_rows for part in parts) - sum(rows))
    values = pa.concat_tables(parts)
    if not values.num_rows:
        return None
    order = pc.sort_indices(values, sort_keys=[(name, "ascending") for name in names]).to_numpy()
    changes = _changes(values.take(pa.array(order)))
    # The place of the value of each record among all values.
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.searchsorted(changes, np.arange(len(order)), side="right")
    if _are_apart(np.split(ranks, np.cumsum(rows)[:-1])) and targets <= _MOST_FOR_EACH * len(sources):
        return None
    places = np.empty(len(order), np.int32)
    places[order] = _numbers(len(order), changes, targets)
    return places


def _are_apart(ranks: Sequence[NDArray[np.int64]]) -> bool:
    """Whether no two sources have more than one value in common, of the ranks of the values of each."""
    ranges = sorted((int(one.min()), int(one.max())) for one in ranks if len(one))
    return all(former[1] <= later[0] for former, later in pairwise(ranges))


def _numbers(rows: int, changes: NDArray[np.int64], targets: int) -> NDArray[np.int32]:
    """The number of the file of each record, in order; the records of one value are in one file where that keeps the sizes alike."""
    cuts = set[int]()
    for cut in (rows * number // targets for number in range(1, targets)):
        after = int(np.searchsorted(changes, cut))
        near = [int(changes[place]) for place in (after - 1, after) if 0 <= place < len(changes)]
        nearest = min(near, key=lambda place: abs(place - cut), default=cut)
        cuts.add(nearest if abs(nearest - cut) <= rows / targets * _REACH else cut)
    # No file is left without records.
    return np.searchsorted(sorted(cuts - {0}), np.arange(rows), side="right").astype(np.int32)


def _changes(ordered: pa.Table) -> NDArray[np.int64]:
    """Where another value begins than that of the record before; there is one record at least."""
    before, behind = ordered.slice(0, ordered.num_rows - 1), ordered.slice(1)
    differs = np.zeros(len(behind), dtype=bool)
    for name in ordered.column_names:
        former, value = before[name], behind[name]
        # Null is unlike every value, and like null.
        unlike = pc.coalesce(pc.not_equal(former, value), pc.not_equal(pc.is_null(former), pc.is_null(value)))
        differs |= unlike.to_numpy()
    return np.flatnonzero(differs) + 1
