"""Indexes on columns of a table: how they are made, listed and dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from rli.errors import (
    ConflictError,
    IndexExistsError,
    IndexNotFoundError,
    InvalidInputError,
    LeaseBusyError,
    RliError,
)
from rli.metadata_table.index_coverage import IndexCoverage
from rli.publication.fence import Fence
from rli.services.column_indexes import mark_dropped, name_index, partitions_for, remove_dropped, statistics_without
from rli.services.metadata_table import disable_metadata
from rli.services.new_partitions import NewPartitions
from rli.table.births import METADATA_SERVICE, OnProgress
from rli.table.hudi_indexings import run_indexings
from rli.table.metadata_of_table import build_partitions, reader_of, status_of
from rli.table.opened import OpenTable
from rli.table.patience import patience
from rli.table.stored_columns import (
    build,
    home_of,
    in_stores,
    require_build,
    require_no_repeats,
    require_possible,
)
from rli.view.column_indexes import (
    ColumnIndex,
    ColumnIndexState,
    IndexHome,
    NamedIndex,
    NamedIndexes,
    WantedIndex,
    column_indexes,
)
from rli.view.definition import TableDefinition
from rli.view.planned_indexing import partitions_of, pending_indexings
from rli.view.snapshot import Snapshot, told_of_now

_ATTEMPTS: Final = 3
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)


class IndexesOnColumns:
    """The indexes on columns of an open table."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    def list(self) -> tuple[ColumnIndex, ...]:
        """See ``Table.indexes``."""
        found = (*told_of_now(self._opened.reloaded(), _measured), *in_stores(self._opened))
        return tuple(index.counted(self._opened.definition.location) for index in found)

    def create(self, name: str, index: WantedIndex, timeout: float | None, on_progress: OnProgress) -> ColumnIndex:
        """See ``Table.create_index``."""
        found, home = self._found(name, index, timeout)
        if found is not None and found.state is ColumnIndexState.VALID:
            return self._require(name)
        # A lost index that keeps values unique goes on refusing commits, until it is built again.
        is_enforced = index.is_unique and found is not None and found.state is ColumnIndexState.INVALID
        if not is_enforced:
            # Whatever becomes of this process, the next build goes on, and a drop removes what there is.
            self.schedule(name, index, timeout)
        own = self._named_ones().indexes.get(name)
        build = self._build_in_store if home is IndexHome.STORE else self._build_in_metadata
        try:
            return build(name, index, timeout, on_progress)
        except RliError as error:
            # One that is being built elsewhere is that process's.
            if found is None and own is not None and not isinstance(error, ConflictError):
                with suppress(RliError):
                    self._drop_unbuilt(name, own, timeout)
            raise

    def schedule(self, name: str, index: WantedIndex, timeout: float | None) -> ColumnIndex:
        """See ``Table.create_index``, without waiting."""
        found, home = self._found(name, index, timeout)
        if found is not None and found.state in (ColumnIndexState.VALID, ColumnIndexState.BUILDING):
            return self._require(name)
        is_needed = True
        if home is IndexHome.STORE:
            require_possible(index, self._opened)
        else:
            is_needed = self._plan(lambda now: partitions_for(name, index, now, self._opened.scope)) is not None
        named = index.named(home, is_owner=is_needed, is_scheduled=is_needed)
        self._name(name, index, named, timeout)
        return self._require(name)

    def build(self, timeout: float | None, on_progress: OnProgress) -> tuple[ColumnIndex, ...]:
        """See ``Table.build_indexes``."""
        for name in sorted(self._named_ones().dropped):
            self._finish_drop(name, timeout)
        partitions, failures = run_indexings(self._opened, timeout, on_progress)
        of_hudi = [index for index in self.list() if index.partition in partitions] if partitions else []
        scheduled = {name: one for name, one in self._named_ones().indexes.items() if one.is_scheduled}
        built = []
        for name, one in scheduled.items():
            try:
                built.append(self.create(name, WantedIndex.again(one), timeout, on_progress))
            except RliError as error:
                failures[name] = error
        if len(failures) > 1:
            raise _failed_builds(self._opened.definition, failures)
        for failure in failures.values():
            raise failure
        return (*of_hudi, *built)

    def _found(self, name: str, index: WantedIndex, timeout: float | None) -> tuple[ColumnIndex | None, IndexHome]:
        """The index of a name, if it is what the caller asks for, and its home, or the one that a new one gets."""
        _require_name(name)
        self._finish_drop(name, timeout)
        found = _named(name, self._listed())
        home = home_of(index, self._opened) if found is None else found.home
        _require_same(found, index, home)
        return found, home

    def _build_in_metadata(
        self, name: str, index: WantedIndex, timeout: float | None, on_progress: OnProgress
    ) -> ColumnIndex:
        is_owner = False
        # Another process may have built the same partition meanwhile, for other columns.
        for _ in range(_ATTEMPTS):
            wanted = self._plan(lambda now: partitions_for(name, index, now, self._opened.scope))
            if wanted is None:
                break
            is_owner = True
            build_partitions(self._opened, wanted, timeout, on_progress)
        self._name(name, index, index.named(IndexHome.METADATA, is_owner=is_owner), timeout)
        return self._require(name)

    def _build_in_store(
        self, name: str, index: WantedIndex, timeout: float | None, on_progress: OnProgress
    ) -> ColumnIndex:
        require_possible(index, self._opened)
        made = build(name, index.column, self._opened, on_progress)
        with self._service(timeout) as (_, fence):
            definition = fence.table.reloaded()
            require_build(name, made, definition, self._opened)
            own = self._require_named(name, fence)
            built: dict[str, Any] = {"is_scheduled": False}
            if index.is_unique:
                built["unique_since"] = require_no_repeats(name, index.column, definition, self._opened)
            name_index(name, own.model_copy(update=built), fence)
        return self._require(name)

    def _require_named(self, name: str, fence: Fence) -> NamedIndex:
        """The named index; raises ``IndexNotFoundError`` if it was dropped while it was built."""
        named = NamedIndexes.load(fence.table.storage)
        if name not in named.indexes or name in named.dropped:
            raise IndexNotFoundError(
                f"the index was dropped while it was built: table={fence.table.location} name={name}",
                remedy="create it again",
            )
        return named.indexes[name]

    def _name(self, name: str, index: WantedIndex, named: NamedIndex, timeout: float | None) -> None:
        with self._service(timeout) as (_, fence):
            # Another caller may have made an index of this name meanwhile.
            own = NamedIndexes.load(fence.table.storage).indexes.get(name)
            if own is not None and (own.home, own.using, own.column) != (named.home, named.using, named.column):
                raise _another(name, f"using={own.using} columns={own.column} home={own.home}")
            in_metadata = named.home is IndexHome.METADATA
            listed = column_indexes(fence.table.reloaded(), {}) if in_metadata else in_stores(self._opened)
            present = _named(name, listed)
            _require_same(present, index, named.home)
            if own is not None:
                self._require_named(name, fence)
                # Another process may have built it, and died before it could say so; or has built it meanwhile.
                is_built = present is not None and present.state is ColumnIndexState.VALID
                is_owner, is_scheduled = named.is_owner or own.is_owner, named.is_scheduled and not is_built
                kept = {"is_owner": is_owner, "is_scheduled": is_scheduled, "identity": own.identity}
                named = named.model_copy(update=kept)
            name_index(name, named, fence)

    def drop(self, name: str, timeout: float | None) -> bool:
        """See ``Table.drop_index``."""
        index = self._present(name, self._listed())
        if name not in self._named_ones().indexes:
            self._remove_unnamed(index, timeout)
            return True
        mark_dropped(name, self._opened.definition)
        with suppress(LeaseBusyError):
            self._finish_drop(name, timeout or 0)
        return name not in self._named_ones().dropped

    def _drop_unbuilt(self, name: str, scheduled: NamedIndex, timeout: float | None) -> None:
        """Drop a scheduled index, unless another process has built it meanwhile, or has made another one of its name."""
        with self._service(timeout) as (_, fence):
            own = NamedIndexes.load(fence.table.storage).indexes.get(name)
            if own is not None and own.is_scheduled and own.identity == scheduled.identity:
                mark_dropped(name, fence.table)
                remove_dropped(fence, self._opened.index)

    def _finish_drop(self, name: str, timeout: float | None) -> None:
        """Remove the data of a dropped index, then its name."""
        named = self._named_ones()
        own, rest = named.indexes.get(name), None
        if own is None or name not in named.dropped:
            return
        if own.shares_statistics and named.is_last(name):
            rest = self._plan(lambda now: statistics_without([own.column], now, self._opened.scope))
        if rest is not None:
            build_partitions(self._opened, rest, timeout)
        with self._service(timeout) as (_, fence):
            remove_dropped(fence, self._opened.index)

    def _remove_unnamed(self, index: ColumnIndex, timeout: float | None) -> None:
        """Remove an index of Hudi's writers, or one that came with the metadata table."""
        rest = None
        is_valid = index.state is ColumnIndexState.VALID
        if is_valid and index.shares_statistics:
            rest = self._plan(lambda now: statistics_without(index.columns, now, self._opened.scope))
        if rest is not None:
            build_partitions(self._opened, rest, timeout)
            return
        with self._service(timeout) as (table, fence):
            if index.partition in partitions_of(table.properties, pending_indexings(table.load_timeline())):
                disable_metadata([index.partition], fence)

    def _named_ones(self) -> NamedIndexes:
        return NamedIndexes.load(self._opened.definition.storage)

    def _listed(self) -> Iterator[ColumnIndex]:
        """As ``list``, without ``size``, ``lag`` and ``covers``, so that no file of the metadata table is read."""
        yield from column_indexes(self._opened.reloaded(), {})
        yield from in_stores(self._opened)

    def _require(self, name: str) -> ColumnIndex:
        return self._present(name, self.list())

    def _present(self, name: str, indexes: Iterable[ColumnIndex]) -> ColumnIndex:
        found = _named(name, indexes)
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


def _failed_builds(table: TableDefinition, failures: Mapping[str, RliError]) -> RliError:
    """One error that names all indexes that could not be built."""
    said = "; ".join(f"{name}: {error.problem}" for name, error in failures.items())
    error = RliError(
        f"several indexes could not be built, and stay scheduled: table={table.location} ({said})",
        remedy="; ".join(dict.fromkeys(one.remedy for one in failures.values() if one.remedy)) or None,
    )
    error.__cause__ = ExceptionGroup("builds of indexes on columns", list(failures.values()))
    return error


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


def _measured(snapshot: Snapshot) -> tuple[ColumnIndex, ...]:
    sizes = {found.partition: found.bytes for found in status_of(snapshot).partitions}
    coverage = IndexCoverage(snapshot, reader_of(snapshot))
    return tuple(map(coverage.measured, column_indexes(snapshot.table, sizes)))
