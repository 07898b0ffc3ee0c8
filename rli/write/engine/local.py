"""The plain-Python engine: writes a table in this process.

Memory is bounded by the batch that is written and by the file groups that are written at a time: one for each core, up to eight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult
from rli.index.contract import TableIndex
from rli.index.locators import Locator
from rli.index.reports import SomeKeys
from rli.locations import NamedGroups, named_groups
from rli.model import FileGroupId
from rli.tasks import InProcess, InThreads, TaskRunner
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.write.engine.contract import Engine, Request, TaggedRows, Tagging
from rli.write.engine.workload import WorkloadProfile
from rli.write.engine.write_plan import WritePlan
from rli.write.rows.by_file_group import Positions, groups_of, placed_groups, positions_by_code, rows_at
from rli.write.rows.keying import Keying
from rli.write.rows.late_moves import LateMoves
from rli.write.rows.tagging import TaggedBatch
from rli.write.rows.tally import Tally


@dataclass(frozen=True, slots=True)
class LocalEngine(Engine):
    """Writes tables from a ``pyarrow.Table`` in this process."""

    flushes_in_tasks: ClassVar[bool] = False

    @property
    def tasks(self) -> TaskRunner:
        return InProcess()

    @property
    def workers(self) -> TaskRunner:
        return InThreads()

    def stored_records(
        self, slices: Sequence[FileSlice], read: Callable[[FileSlice], pa.Table], schema: pa.Schema
    ) -> pa.Table:
        return pa.concat_tables([schema.empty_table(), *InThreads().run(read, slices)])

    @contextmanager
    def request(
        self,
        source: pa.Table,
        keying: Keying,
        table: TableDefinition,  # noqa: ARG002  (for engines that keep a request in files)
        index: TableIndex,  # noqa: ARG002
    ) -> Iterator[Request]:
        given = keying.keyed(source)
        keyed = keying.distinct(given)
        bytes_per_row = source.nbytes / max(source.num_rows, 1)
        yield _LocalRequest(keyed, keying.schema(keyed.schema), bytes_per_row, keying.received(given))


@dataclass(frozen=True, slots=True)
class _LocalRequest(Request):
    keyed: pa.Table
    schema: pa.Schema
    bytes_per_row: float
    received: Tally

    @property
    def _keys(self) -> pa.Array:
        return self.keyed.column(work_rows.RECORD_KEY).combine_chunks()

    @contextmanager
    def tag(self, locator: Locator, tagging: Tagging) -> Iterator[TaggedRows]:
        yield LocalRows.of(tagging(self.keyed, locator), self.received.keys - self.keyed.num_rows)

    def files_of(self, save: Callable[[pa.Table, str], str | None]) -> list[str]:
        path = save(self.keyed, "0-0-0")
        return [] if path is None else [path]

    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        return choose(self._keys)


@dataclass(frozen=True, slots=True)
class LocalRows(TaggedRows):
    """Work rows in this process. Rows that stay, or are inserted, are not copied before their file group is written.

    Attributes:
        rows: all work rows of the batch.
        staying: positions of those that update or delete a record where it is.
        inserted: positions of those that have no file group yet, and leave none.
        moving: those that have no file group yet, and leave one.
        profile: counts of all.
    """

    rows: pa.Table
    staying: Positions
    inserted: Positions
    moving: pa.Table
    profile: WorkloadProfile

    @classmethod
    def of(cls, tagged: TaggedBatch, duplicates: int) -> LocalRows:
        """The rows of a batch that holds all rows of an attempt.

        Args:
            tagged: the batch.
            duplicates: rows of the request that are not in it, because another row has their key.
        """
        rows = tagged.rows.combine_chunks()
        changes = rows.column(work_rows.CHANGE).to_numpy()
        staying = np.flatnonzero(np.isin(changes, (Change.UPDATE, Change.DELETE)))
        inserted = np.flatnonzero(np.isin(changes, work_rows.NEW))
        moving = rows_at(rows, np.flatnonzero(changes == Change.MOVE_IN))
        profile = WorkloadProfile(
            inserted=_partition_counts(rows_at(rows.select(work_rows.FILE_GROUP), inserted)),
            changed=_origin_counts(rows_at(rows.select(work_rows.PRIOR_FILE_GROUP), staying)),
            leaving=_origin_counts(moving),
            left_out=tagged.left_out,
            duplicates=duplicates,
        )
        return cls(rows, staying, inserted, moving, profile)

    @property
    def unmoved(self) -> pa.Table:
        """The rows of records that do not move."""
        return rows_at(self.rows, np.concatenate([self.staying, self.inserted]))

    def without_late_moves(self, late: LateMoves) -> LocalRows:
        by_origin = groups_of(self.moving, work_rows.PRIOR_FILE_GROUP)
        moving = pa.concat_tables(InThreads().run(lambda moves: late.without(*moves), by_origin))
        return replace(self, moving=moving, profile=replace(self.profile, arriving=_partition_counts(moving)))

    def keys_of_moves(self, most: int) -> list[str]:
        keys: list[str] = self.moving.column(work_rows.RECORD_KEY).slice(0, most).to_pylist()
        return keys

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        arriving = plan.placing.place(self.moving)
        parts = sorted(self._positions_by_group(plan, arriving).items())
        threads = InThreads()

        def write(lot: range) -> list[FileGroupResult]:
            groups, positions = zip(*parts[lot.start : lot.stop], strict=True)
            tokens = [f"{number}-0-0" for number in lot]
            rows = _rows_of_both(self.rows, arriving, np.concatenate(positions))
            return plan.writing.write_lot(groups, rows, [*map(len, positions)], tokens)

        lots = plan.lots([group for group, _ in parts], threads.threads)
        return chain.from_iterable(threads.run(write, lots))

    def _positions_by_group(self, plan: WritePlan, arriving: pa.Table) -> dict[FileGroupId, Positions]:
        """Where the rows of each file group are among all rows and, behind them, those that arrive and their departures."""
        columns = (work_rows.PARTITION_PATH, work_rows.RECORD_KEY)
        new = placed_groups(rows_at(self.rows.select(columns), self.inserted), plan.placing.placements)
        moved = np.arange(arriving.num_rows) + self.rows.num_rows
        found: dict[FileGroupId, list[Positions]] = defaultdict(list)
        for named, positions in (
            (_groups_in(rows_at(self.rows.select(work_rows.FILE_GROUP), self.staying)), self.staying),
            (new, self.inserted),
            (_groups_in(arriving), moved),
        ):
            for group, places in zip(named.groups, positions_by_code(named.codes, len(named.groups)), strict=True):
                if group is not None and len(places):
                    found[group].append(positions[places])
        return {group: np.concatenate(places) for group, places in found.items()}


def _rows_of_both(first: pa.Table, second: pa.Table, positions: Positions) -> pa.Table:
    """The rows at some positions in a table and, behind it, another one; neither is copied as a whole."""
    is_in_first = positions < first.num_rows
    if is_in_first.all():
        return rows_at(first, positions)
    parts = rows_at(first, positions[is_in_first]), rows_at(second, positions[~is_in_first] - first.num_rows)
    places = np.concatenate([np.flatnonzero(is_in_first), np.flatnonzero(~is_in_first)])
    return rows_at(pa.concat_tables(parts).combine_chunks(), np.argsort(places))


def _groups_in(rows: pa.Table, columns: tuple[str, str] = work_rows.FILE_GROUP) -> NamedGroups:
    return named_groups(*(rows.column(name).combine_chunks() for name in columns))


def _partition_counts(rows: pa.Table) -> Mapping[str, int]:
    counted = pc.value_counts(rows.column(work_rows.PARTITION_PATH).combine_chunks())
    return {entry["values"]: entry["counts"] for entry in counted.to_pylist()}


def _origin_counts(rows: pa.Table) -> Mapping[FileGroupId, int]:
    """How many of the rows' records are stored in each file group."""
    named = _groups_in(rows, work_rows.PRIOR_FILE_GROUP)
    counts = np.bincount(named.codes, minlength=len(named.groups)).tolist()
    return {group: count for group, count in zip(named.groups, counts, strict=True) if group is not None}
