"""Indexes on columns of a table: how they are made, listed and dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

from rli.errors import IndexExistsError, IndexNotFoundError, InvalidInputError, RepeatedValueError, RliError
from rli.publication.fence import Fence
from rli.services.column_indexes import forget_index, name_index, partitions_for, partitions_without
from rli.services.metadata_births import NewPartitions
from rli.services.metadata_table import disable_metadata
from rli.table.births import METADATA_SERVICE, OnProgress
from rli.table.metadata_of_table import build_partitions, status_of
from rli.table.opened import OpenTable
from rli.table.patience import patience
from rli.table.stored_columns import build, home_of, in_stores, remove, require_no_repeats, require_possible
from rli.view.column_indexes import (
    ColumnIndex,
    ColumnIndexState,
    IndexHome,
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
        return (*told_of_now(self._opened.reloaded(), _listed), *in_stores(self._opened))

    def create(self, name: str, index: WantedIndex, timeout: float | None, on_progress: OnProgress) -> ColumnIndex:
        """See ``Table.create_index``."""
        found, home = self._found(name, index)
        if found is not None and found.state is ColumnIndexState.VALID:
            return found
        if home is IndexHome.STORE:
            return self._create_in_store(name, index, timeout, is_lost=found is not None)
        wanted = self._plan(lambda now: partitions_for(name, index, now, self._opened.scope))
        if wanted is not None:
            build_partitions(self._opened, wanted, timeout, on_progress)
        self._name(name, index, _named_as(index, is_owner=wanted is not None), timeout)
        return self._require(name)

    def schedule(self, name: str, index: WantedIndex, timeout: float | None) -> ColumnIndex:
        """See ``Table.create_index``, without waiting."""
        found, home = self._found(name, index)
        if found is not None and found.state in (ColumnIndexState.VALID, ColumnIndexState.BUILDING):
            return found
        if home is IndexHome.STORE:
            raise InvalidInputError(
                f"only indexes in the metadata table are scheduled, and this one is kept in a key-value store: name={name}",
                remedy="leave out wait=False (--async); in tables of version 9, home='metadata' can be chosen",
            )
        is_needed = self._plan(lambda now: partitions_for(name, index, now, self._opened.scope)) is not None
        self._name(name, index, _named_as(index, is_owner=is_needed, is_scheduled=is_needed), timeout)
        return self._require(name)

    def build(self, timeout: float | None, on_progress: OnProgress) -> tuple[ColumnIndex, ...]:
        """See ``Table.build_indexes``."""
        named = NamedIndexes.load(self._opened.definition.storage).indexes
        scheduled = {name: one for name, one in named.items() if one.is_scheduled}
        built, failures = [], []
        for name, one in scheduled.items():
            wanted = WantedIndex(one.using, one.column, one.expression)
            try:
                built.append(self.create(name, wanted, timeout, on_progress))
            except RliError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return tuple(built)

    def _found(self, name: str, index: WantedIndex) -> tuple[ColumnIndex | None, IndexHome]:
        """The index of a name, if it is what the caller asks for, and its home, or the one that a new one gets."""
        _require_name(name)
        found = self._find(name)
        home = home_of(index, self._opened) if found is None else found.home
        _require_same(found, index, home)
        return found, home

    def _create_in_store(self, name: str, index: WantedIndex, timeout: float | None, *, is_lost: bool) -> ColumnIndex:
        require_possible(index, self._opened)
        # Named first: each commit from here on keeps the index, as soon as it is built. In place of a lost unique one, commits are
        # refused until then.
        named = NamedIndex(using=index.using, column=index.column, is_owner=True, home=IndexHome.STORE)
        self._name(name, index, named.model_copy(update={"is_unique": is_lost and index.is_unique}), timeout)
        build(name, index.column, self._opened)
        if index.is_unique:
            self._keep_unique(name, named.model_copy(update={"is_unique": True}), timeout)
        return self._require(name)

    def _keep_unique(self, name: str, named: NamedIndex, timeout: float | None) -> None:
        """Allow each value once from now on; if two records have one, the index goes."""
        try:
            with self._service(timeout) as (_, fence):
                require_no_repeats(name, named.column, fence.table.reloaded(), self._opened)
                name_index(name, named, fence)
        except RepeatedValueError:
            self.drop(name, timeout)
            raise

    def _name(self, name: str, index: WantedIndex, named: NamedIndex, timeout: float | None) -> None:
        with self._service(timeout) as (_, fence):
            # Another caller may have made an index of this name meanwhile.
            own = NamedIndexes.load(fence.table.storage).indexes.get(name)
            if own is not None and (own.home, own.using, own.column) != (named.home, named.using, named.column):
                raise _another(name, f"using={own.using} columns={own.column} home={own.home}")
            if named.home is IndexHome.METADATA:
                _require_same(_named(name, column_indexes(fence.table.reloaded(), {})), index, named.home)
            if own is not None:
                # Another process may have built it, and died before it could say so; or has built it meanwhile.
                is_scheduled = named.is_scheduled and own.is_scheduled
                named = named.model_copy(
                    update={"is_owner": named.is_owner or own.is_owner, "is_scheduled": is_scheduled}
                )
            name_index(name, named, fence)

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
            if index.home is IndexHome.STORE:
                remove(name, self._opened)

    def _remove(self, index: ColumnIndex, timeout: float | None) -> None:
        """Remove what an index is made of: its partition, the statistics of its columns, or its store."""
        if index.home is IndexHome.STORE:
            return
        if index.state is ColumnIndexState.INVALID:
            return
        own = NamedIndexes.load(self._opened.definition.storage).indexes.get(index.name)
        if own is not None and own.is_scheduled and index.expression is None:
            # What is there belongs to others.
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


def possible_index(on: str, using: IndexUse | str | None, expression: str | None) -> WantedIndex:
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
    return WantedIndex(IndexUse(using), on, expression)


def possible_home(home: IndexHome | str | None) -> IndexHome | None:
    """Where an index is to be kept; None: where it suits the table; raises ``InvalidInputError`` for another place."""
    if home is not None and home not in set(IndexHome):
        raise InvalidInputError(
            f"rli keeps no index there: home={home!r}", remedy=f"choose one of {', '.join(IndexHome)}, or leave it out"
        )
    return None if home is None else IndexHome(home)


def _named_as(index: WantedIndex, *, is_owner: bool, is_scheduled: bool = False) -> NamedIndex:
    """What rli keeps of an index in the metadata table that a caller asks for."""
    return NamedIndex(
        using=index.using,
        column=index.column,
        is_owner=is_owner or index.expression is not None,
        expression=index.expression,
        is_scheduled=is_scheduled,
    )


def _named(name: str, indexes: Iterable[ColumnIndex]) -> ColumnIndex | None:
    return next((index for index in indexes if index.name == name), None)


def _require_same(found: ColumnIndex | None, wanted: WantedIndex, home: IndexHome) -> None:
    """Raise ``IndexExistsError`` if an index of the wanted name is another one."""
    if found is not None and not (wanted.is_like(found) and found.home is (wanted.home or home)):
        columns = ",".join(found.columns)
        raise _another(
            found.name,
            f"using={found.using} columns={columns} expression={found.expression} home={found.home} unique={found.is_unique}",
        )


def _another(name: str, description: str) -> IndexExistsError:
    return IndexExistsError(
        f"the table has another index of this name: name={name} {description}",
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
