"""Whether a write may be published, by the unique indexes of its table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rli.errors import IndexNotReadyError
from rli.index.contract import TableIndex
from rli.index.roles import IndexesColumns, UnpublishedWrite
from rli.view.column_indexes import NamedIndexes


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
