"""Whether a write may be published, and commits be undone, by the unique indexes of their table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from rli.errors import IndexNotReadyError, RepeatedValueError
from rli.hudi.timeline.instant import Instant
from rli.index.contract import TableIndex
from rli.index.roles import IndexesColumns, UnpublishedWrite
from rli.view.column_indexes import NamedIndexes
from rli.view.snapshot import Snapshot


def require_unique(index: TableIndex, write: UnpublishedWrite, locate: Callable[[pa.Array], pa.Table]) -> None:
    """Pass a write after which no two records have one value of a column with a unique index.

    Args:
        index: of the table.
        write: the write; its process holds the lease.
        locate: where record keys are in the state before it: ``LOCATION_SCHEMA``.

    Raises:
        RepeatedValueError: two have.
        IndexNotReadyError: a unique index cannot tell, or the table has none of the indexes that can any more.
    """
    if isinstance(index, IndexesColumns):
        index.require_unique(write, locate)
        return
    named = NamedIndexes.load(write.snapshot.table.storage).kept_in_stores
    lost = [name for name, one in named.items() if one.is_unique]
    if lost:
        raise IndexNotReadyError(
            f"the index of the table keeps no values unique: index={lost[0]} beside={index.url}",
            remedy=f"give the table a record index in a store, or drop the index: rli index drop TABLE {lost[0]}",
        )


def require_unique_values_after(index: TableIndex, snapshot: Snapshot, undone: Sequence[Instant]) -> None:
    """Pass an undo after which no two records have one value of a column with a unique index.

    Only a state from before such an index may have repeated values: the column is read if a commit from then is undone.

    Args:
        index: of the table.
        snapshot: the state before the undo; the caller holds the lease.
        undone: the commits to undo.

    Raises:
        RepeatedValueError: two records would have one value.
    """
    if not isinstance(index, IndexesColumns):
        return
    times = {instant.time for instant in undone}
    unique = {
        name: one.column
        for name, one in NamedIndexes.load(snapshot.table.storage).kept_in_stores.items()
        if one.is_unique and any(time <= one.unique_since or not one.unique_since for time in times)
    }
    left = snapshot.reduced_to(frozenset(write.time for write in snapshot.timeline.completed_writes) - times)
    for name, column in unique.items():
        # Without the column, no record has a value.
        if left.schema is not None and column in left.schema.names:
            try:
                index.require_no_repeats(name, column, left)
            except RepeatedValueError as error:
                raise RepeatedValueError(
                    f"the undo would bring repeated values back: {error.problem}",
                    remedy=f"drop the index first: rli index drop TABLE {name}",
                ) from error
