"""Point reads: the records of some keys, found by the index instead of a scan.

The index names the file groups of the keys. Of their base files, the key column is read where the row groups' ranges
may hold one of the keys; of the other columns, only the way to the matching rows.

All that is read is of one state of the table: the keys are looked up, and the files listed, as of one commit. Where
another commit changes one of the keys, or a clean removes one of the files before it is read, everything is read again
as of a later commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.commit.readiness import await_synced
from rli.errors import (
    ConflictError,
    CorruptIndexError,
    CorruptTableError,
    IndexNotReadyError,
)
from rli.filters.filter import Filter
from rli.hudi.meta_columns import with_meta_columns
from rli.index.contract import IndexState, TableIndex
from rli.index.locators import FileLocator, Locator
from rli.locations import keys_by_group
from rli.model import FileGroupId
from rli.reads.kept_slices import SLICES
from rli.tasks import InProcess, InThreads
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.lost_files import require_files
from rli.view.scan import wanted_columns
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.snapshot import Snapshot
from rli.view.time_travel import has_last_write, is_shown_by, is_whole_for

_SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class KeysOfGroup:
    """Some record keys that the index places in one file group. Picklable.

    Attributes:
        group: the file group.
        file_slice: its slice; None if the table shows none.
        record_keys: distinct string array, shape (n,).
        positions: of the keys among all that were asked for, shape (n,).
    """

    group: FileGroupId
    file_slice: FileSlice | None
    record_keys: pa.Array
    positions: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class LocatedKeys:
    """Where some record keys are as of one commit.

    Attributes:
        snapshot: the table as of that commit.
        parts: for each file group its keys; absent keys are in none.
        is_recalled: whether all slices are kept from an earlier look at the same state, which lacked no file.
    """

    snapshot: Snapshot
    parts: Sequence[KeysOfGroup]
    is_recalled: bool = False

    def groups(self) -> set[FileGroupId]:
        """The file groups that hold the keys."""
        return {part.group for part in self.parts}


def get_records(
    table: TableDefinition,
    index: TableIndex,
    record_keys: pa.Array,
    columns: Sequence[str] | None,
    timeout: float,
    *,
    filters: object = None,
) -> pa.Table:
    """The records of some keys; see ``Table.get``."""
    keys = pc.unique(record_keys)
    return _records(table, index, lambda _: keys, timeout, (columns, filters))


FindsKeys: TypeAlias = Callable[[Snapshot, Filter, pa.Schema], pa.Array | None]
"""Gives the keys (distinct) of all records of a state that a filter on their schema may pass; None if it does not know them."""


def get_found(
    table: TableDefinition,
    index: TableIndex,
    find: FindsKeys,
    columns: Sequence[str] | None,
    filters: object,
    *,
    timeout: float,
) -> pa.Table | None:
    """The records that pass a filter, by their keys, in any order; None if nobody knows these.

    Args:
        table: the table.
        index: its index.
        find: finds the keys, in the very state in which they are looked up.
        columns: as for ``Table.get``.
        filters: as for ``Table.get``.
        timeout: as for ``Table.get``.
    """

    def found(snapshot: Snapshot) -> pa.Array:
        full = with_meta_columns(snapshot.schema or pa.schema([]))
        passes = None if snapshot.schema is None else Filter.of(filters, full)
        keys = None if passes is None else find(snapshot, passes, full)
        if keys is None:
            raise _UnknownKeysError
        return keys

    try:
        return _records(table, index, found, timeout, (columns, filters))
    except _UnknownKeysError:
        return None


class _UnknownKeysError(Exception):
    """Nobody knows the keys of the records that are sought."""


def _records(
    table: TableDefinition,
    index: TableIndex,
    find: Callable[[Snapshot], pa.Array],
    timeout: float,
    wanted: tuple[Sequence[str] | None, object],
) -> pa.Table:
    """The records of the keys that are found in a state: the wanted columns of those that pass the wanted filter."""
    deadline, second, recalls = time.monotonic() + timeout, SecondLook(table), True
    while True:
        try:
            located = _locate_found(table, index, find, deadline, recalls=recalls)
            snapshot, groups = located.snapshot, located.groups()
            lacks_none = located.is_recalled or require_files(snapshot, groups)
            found = _read(located, *wanted)
            if located.is_recalled and groups and has_last_write(snapshot):
                # An earlier look listed under this very timeline, and found it again: neither lacks anything, and the files were read.
                return found
            current = Snapshot.now(snapshot.table)
            if is_shown_by(current, snapshot, groups):
                if lacks_none and current.timeline == snapshot.timeline:
                    SLICES.keep(snapshot, {group.partition_path for group in groups})
                return found
        except (*OVERTAKEN, CorruptIndexError) as problem:
            # What is wrong may be lost since it was listed: the second look lists again.
            recalls = False
            second.require_change(problem)
        require_time_left(index, deadline)


def _read(located: LocatedKeys, columns: Sequence[str] | None, filters: object) -> pa.Table:
    snapshot = located.snapshot
    if snapshot.schema is None:
        return pa.schema([]).empty_table()
    wanted = wanted_columns(snapshot.schema, columns)
    full = with_meta_columns(snapshot.schema)
    passes = Filter.of(filters, full)
    tested = [] if passes is None else passes.names_in(full)
    # Each column once, and one in any case: without one, nothing would say how many records there are.
    read = dict.fromkeys([*wanted.names, *tested]) or dict.fromkeys(snapshot.schema.names[:1])
    schema = wanted_columns(snapshot.schema, list(read))
    tasks = InThreads() if len(located.parts) > 1 else InProcess()
    found = list(tasks.run(partial(read_part, snapshot, schema), located.parts))
    if not found:
        return wanted.empty_table()
    order = np.argsort(np.concatenate([positions for positions, _ in found]), kind="stable")
    records = pa.concat_tables([records for _, records in found]).take(pa.array(order))
    if passes is not None:
        records = records.filter(passes.mask(records))
    return records.select([schema.get_field_index(name) for name in wanted.names])


def locate(table: TableDefinition, index: TableIndex, record_keys: pa.Array, deadline: float) -> LocatedKeys:
    """Look record keys (distinct, shape (n,)) up, and their file slices, as of one commit.

    Files that are cleaned while they are listed may be missing: ``is_whole_for`` tells.

    Raises:
        IndexNotReadyError: the index has not seen all commits at the deadline (of ``time.monotonic``), or the keys were
            changed again and again.
        CorruptTableError, IndexMismatchError, InstantNotFoundError: a file is lost or damaged, or others have removed it.
    """
    return _locate_found(table, index, lambda _: record_keys, deadline)


def _locate_found(
    table: TableDefinition,
    index: TableIndex,
    find: Callable[[Snapshot], pa.Array],
    deadline: float,
    *,
    recalls: bool = False,
) -> LocatedKeys:
    """As ``locate``, of the keys that are found in that very state; ``recalls`` takes slices that this process keeps."""
    state, record_keys, found = _found(table, index, find, deadline)
    by_group = keys_by_group(found)
    is_recalled = recalls and SLICES.recall(state.snapshot, {group.partition_path for group in by_group})
    slices = state.snapshot.slices.of_groups(by_group)
    parts = [
        KeysOfGroup(group, slices.get(group), keys, pc.index_in(keys, value_set=record_keys).to_numpy())
        for group, keys in by_group.items()
    ]
    return LocatedKeys(state.snapshot, parts, is_recalled)


def slices_of(snapshot: Snapshot, groups: Sequence[FileGroupId]) -> dict[FileGroupId, FileSlice | None] | None:
    """The file slices of some file groups; None if others have rewritten or undone them since the snapshot.

    Raises:
        CorruptTableError: a base file is lost.
        InstantNotFoundError: a commit was undone or archived meanwhile.
    """
    found = snapshot.slices.of_groups(groups)
    require_files(snapshot, groups)
    return {group: found.get(group) for group in groups} if is_whole_for(snapshot, groups) else None


def _found(
    table: TableDefinition, index: TableIndex, find: Callable[[Snapshot], pa.Array], deadline: float
) -> tuple[IndexState, pa.Array, pa.Table]:
    """A state of table and index, the keys that are found in it, and where these are."""
    while True:
        state = await_synced(table, index, max(0.0, deadline - time.monotonic()))
        record_keys = find(state.snapshot)
        try:
            locator = state.locator()
            found = locator.locate_all(record_keys)
            if has_seen_all(locator, state.snapshot):
                return state, record_keys, found
        except ConflictError:
            pass
        require_time_left(index, deadline)


def has_seen_all(locator: Locator, snapshot: Snapshot) -> bool:
    """Whether the keys that a look-up did not find are absent from a state.

    Where files are asked, a clean may have removed some before they were listed (P16).

    Raises:
        CorruptTableError: a file is lost that may have held the keys.
    """
    if not isinstance(locator, FileLocator):
        return True
    require_files(snapshot, partition_paths=snapshot.slices.listed)
    return is_whole_for(replace(snapshot))


def records_of(
    snapshot: Snapshot, schema: pa.Schema, group: FileGroupId, file_slice: FileSlice | None, record_keys: pa.Array
) -> pa.Table:
    """The records of some keys (distinct, shape (n,)) of one file group, in any order.

    Raises:
        InstantNotFoundError: others have removed the file since it was located.
        RliError: otherwise as ``read_part``.
    """
    part = KeysOfGroup(group, file_slice, record_keys, np.arange(len(record_keys)))
    try:
        return read_part(snapshot, schema, part)[1]
    except CorruptTableError:
        snapshot.require_not_removed([] if file_slice is None else [file_slice])
        raise


def read_part(snapshot: Snapshot, schema: pa.Schema, part: KeysOfGroup) -> tuple[NDArray[np.intp], pa.Table]:
    """The records of the keys of one file group: a task.

    Returns:
        The position of each record's key, shape (n,), and the records.

    Raises:
        CorruptIndexError: there is no record of a key.
        CorruptTableError: a file is missing or damaged.
    """
    left, positions, records = part.record_keys, [np.empty(0, np.intp)], [schema.empty_table()]
    if part.file_slice is not None:
        with snapshot.reader(part.file_slice) as reader:
            for found in reader.find(left, snapshot.key_columns(reader.schema), schema, finds_first=True):
                keys, firsts, left = _first_of_each(left, found.keys, found.records)
                positions.append(part.positions[pc.index_in(keys, value_set=part.record_keys).to_numpy()])
                records.append(firsts)
    if len(left):
        raise CorruptIndexError(
            f"the index places keys in a file group that does not hold them: partition={part.group.partition_path} "
            f"file_id={part.group.file_id} count={len(left)} keys={left.slice(0, _SAMPLE).to_pylist()}",
            remedy="verify the index, then repair or bootstrap it",
        )
    return np.concatenate(positions), pa.concat_tables(records)


def _first_of_each(wanted: pa.Array, keys: pa.Array, records: pa.Table) -> tuple[pa.Array, pa.Table, pa.Array]:
    """The wanted keys that are found, the first record of each, and the wanted keys that are left.

    Files of other engines may hold a key more than once.
    """
    places = pc.index_in(wanted, value_set=keys)
    firsts, left = places.drop_null(), wanted.filter(places.is_null())
    if len(firsts) < len(keys):
        return keys.take(firsts), records.take(firsts), left
    return keys, records, left


def require_time_left(index: TableIndex, deadline: float) -> None:
    """Raise ``IndexNotReadyError`` for a read that has begun again until its deadline (of ``time.monotonic``)."""
    if time.monotonic() > deadline:
        raise IndexNotReadyError(
            f"other writers changed the records again and again while they were looked up: index={index.url}",
            remedy="read again, with a longer timeout",
        )
