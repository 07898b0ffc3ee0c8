"""Indexes on columns of a table: how they are made, listed and dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

from rli.errors import IndexExistsError, IndexNotFoundError, InvalidInputError
from rli.publication.fence import Fence
from rli.services.column_indexes import forget_index, name_index, partitions_for, partitions_without
from rli.services.metadata_births import NewPartitions
from rli.services.metadata_table import disable_metadata
from rli.table.births import METADATA_SERVICE, OnProgress
from rli.table.metadata_of_table import build_partitions, status_of
from rli.table.opened import OpenTable
from rli.table.patience import patience
from rli.view.column_indexes import (
    ColumnIndex,
    ColumnIndexState,
    IndexUse,
    NamedIndex,
    NamedIndexes,
    WantedIndex,
    column_indexes,
)
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot, told_of_now

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_MADE: Final = (IndexUse.SECONDARY, IndexUse.COLUMN_STATS, IndexUse.BLOOM_FILTERS)


class IndexesOnColumns:
    """The indexes on columns of an open table."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    def list(self) -> tuple[ColumnIndex, ...]:
        """See ``Table.indexes``."""
        return told_of_now(self._opened.reloaded(), _listed)

    def create(self, name: str, index: WantedIndex, timeout: float | None, on_progress: OnProgress) -> ColumnIndex:
        """See ``Table.create_index``."""
        _require_name(name)
        found = self._find(name)
        _require_same(found, index)
        if found is not None and found.state is ColumnIndexState.VALID:
            return found
        wanted = self._plan(lambda now: partitions_for(name, index, now, self._opened.scope))
        if wanted is not None:
            build_partitions(self._opened, wanted, timeout, on_progress)
        with self._service(timeout) as (_, fence):
            # Another caller may have made an index of this name meanwhile.
            _require_same(_named(name, column_indexes(fence.table.reloaded(), {})), index)
            is_owner = wanted is not None or index.expression is not None
            named = NamedIndex(using=index.using, column=index.column, is_owner=is_owner, expression=index.expression)
            name_index(name, named, fence)
        return self._require(name)

    def drop(self, name: str, timeout: float | None) -> None:
        """See ``Table.drop_index``."""
        index = self._require(name)
        named = NamedIndexes.load(self._opened.definition.storage)
        own = named.indexes.get(name)
        if named.heir_of(name) is None and (own is None or own.is_owner):
            self._remove(index, timeout)
        if own is not None:
            with self._service(timeout) as (_, fence):
                forget_index(name, fence)

    def _remove(self, index: ColumnIndex, timeout: float | None) -> None:
        """Remove what an index is made of: its partition, or the statistics of its columns."""
        if index.state is ColumnIndexState.INVALID:
            return
        rest = self._plan(lambda now: partitions_without(index, now, self._opened.scope))
        if rest is not None:
            build_partitions(self._opened, rest, timeout)
            return
        with self._service(timeout) as (table, fence):
            if index.partition in table.properties.all_metadata_partitions:
                disable_metadata([index.partition], fence)

    def _find(self, name: str) -> ColumnIndex | None:
        return _named(name, self.list())

    def _require(self, name: str) -> ColumnIndex:
        found = self._find(name)
        if found is None:
            raise IndexNotFoundError(
                f"the table has no index of this name on a column: table={self._opened.definition.location} name={name}",
                remedy="see the names: rli index list TABLE",
            )
        return found

    def _plan(self, tell: Callable[[Snapshot], NewPartitions | None]) -> NewPartitions | None:
        return told_of_now(self._opened.follow().reloaded(), tell)

    def _service(self, timeout: float | None) -> AbstractContextManager[tuple[TableDefinition, Fence]]:
        return self._opened.service(METADATA_SERVICE, patience(timeout))


def possible_index(on: str, using: IndexUse | str | None, expression: str | None, *, wait: bool) -> WantedIndex:
    """The index that a caller asks for, if rli makes such indexes.

    Raises:
        InvalidInputError: rli does not.
    """
    if using is None:
        using = IndexUse.SECONDARY if expression is None else IndexUse.COLUMN_STATS
    if using not in set(_MADE):
        raise InvalidInputError(
            f"rli makes no index of this kind: using={using!r}", remedy=f"choose one of {', '.join(_MADE)}"
        )
    if expression is not None and using == IndexUse.SECONDARY:
        raise InvalidInputError(
            f"rli makes no secondary index on an expression: expression={expression!r}",
            remedy="choose using='column_stats' or using='bloom_filters' (--using)",
        )
    if not wait:
        raise InvalidInputError(
            "rli builds no index in the background: wait=False",
            remedy="leave out wait=False (--async): writers go on during the build, and wait for its last step alone",
        )
    return WantedIndex(IndexUse(using), on, expression)


def _named(name: str, indexes: Iterable[ColumnIndex]) -> ColumnIndex | None:
    return next((index for index in indexes if index.name == name), None)


def _require_same(found: ColumnIndex | None, wanted: WantedIndex) -> None:
    """Raise ``IndexExistsError`` if an index of the wanted name is another one."""
    if found is not None and not wanted.is_like(found):
        raise IndexExistsError(
            f"the table has another index of this name: name={found.name} using={found.using} "
            f"columns={','.join(found.columns)} expression={found.expression}",
            remedy="choose another name, or drop that index first: rli index drop TABLE NAME",
        )


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"an index on a column cannot have this name: name={name!r}",
            remedy="begin with a small letter, and go on with small letters, digits and _; 64 at most",
        )


def _listed(snapshot: Snapshot) -> tuple[ColumnIndex, ...]:
    sizes = {found.partition: found.bytes for found in status_of(snapshot).partitions}
    return column_indexes(snapshot.table, sizes)
