"""The plain-Python engine: writes a table in this process.

Memory is bounded by the batch that is written and by the file groups that are written at a time: one for each core, up to eight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.writer import FileGroupResult
from rli.index.contract import TableIndex
from rli.index.locators import Locator
from rli.index.reports import SomeKeys
from rli.locations import named_groups
from rli.model import FileGroupId
from rli.tasks import InProcess, InThreads, TaskRunner
from rli.view.definition import TableDefinition
from rli.write.contract import Engine, Request, TaggedRows, Tagging, WorkloadProfile, WritePlan
from rli.write.keying import Keying
from rli.write.tagging import LateMoves, TaggedBatch, groups_of


@dataclass(frozen=True, slots=True)
class LocalEngine(Engine):
    """Writes tables from a ``pyarrow.Table`` in this process."""

    syncs_in_tasks: ClassVar[bool] = False

    @property
    def tasks(self) -> TaskRunner:
        return InProcess()

    @contextmanager
    def request(
        self,
        source: pa.Table,
        keying: Keying,
        table: TableDefinition,  # noqa: ARG002  (for engines that keep a request in files)
        index: TableIndex,  # noqa: ARG002
    ) -> Iterator[Request]:
        keyed = keying.distinct(keying.keyed(source))
        yield _LocalRequest(keyed, keying.schema(keyed.schema), source.nbytes / max(source.num_rows, 1))


@dataclass(frozen=True, slots=True)
class _LocalRequest(Request):
    keyed: pa.Table
    schema: pa.Schema
    bytes_per_row: float

    @property
    def _keys(self) -> pa.Array:
        return self.keyed.column(work_rows.RECORD_KEY).combine_chunks()

    @contextmanager
    def tag(self, locator: Locator, tagging: Tagging) -> Iterator[TaggedRows]:
        yield LocalRows.of(tagging(self.keyed, locator))

    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        return choose(self._keys)


@dataclass(frozen=True, slots=True)
class LocalRows(TaggedRows):
    """Work rows in this process, by what they do.

    Attributes:
        staying: update or delete a record where it is.
        inserted, moving: have no file group yet.
        profile: counts of all.
    """

    staying: pa.Table
    inserted: pa.Table
    moving: pa.Table
    profile: WorkloadProfile

    @classmethod
    def of(cls, tagged: TaggedBatch) -> LocalRows:
        """The rows of a batch that holds all rows of an attempt."""
        rows = tagged.rows
        staying = _of_changes(rows, Change.UPDATE, Change.DELETE)
        inserted, moving = _of_changes(rows, *work_rows.NEW), _of_changes(rows, Change.MOVE_IN)
        profile = WorkloadProfile(
            inserted=_partition_counts(inserted),
            changed=_origin_counts(staying),
            leaving=_origin_counts(moving),
            left_out=tagged.left_out,
        )
        return cls(staying, inserted, moving, profile)

    def without_late_moves(self, late: LateMoves) -> LocalRows:
        by_origin = groups_of(self.moving, work_rows.PRIOR_FILE_GROUP)
        moving = pa.concat_tables(InThreads().run(lambda moves: late.without(*moves), by_origin))
        return replace(self, moving=moving, profile=replace(self.profile, arriving=_partition_counts(moving)))

    def keys_of_moves(self, most: int) -> list[str]:
        keys: list[str] = self.moving.column(work_rows.RECORD_KEY).slice(0, most).to_pylist()
        return keys

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        new = pa.concat_tables([self.inserted, self.moving]) if self.moving.num_rows else self.inserted
        by_group = groups_of(pa.concat_tables([self.staying, plan.placing.place(new)]))
        work = [(group, rows, f"{number}-0-0") for number, (group, rows) in enumerate(by_group)]
        return InThreads().run(lambda target: plan.writing.write(*target), work)


def _of_changes(rows: pa.Table, *changes: Change) -> pa.Table:
    """The rows that do one of some things: not copied if all or none of them do."""
    wanted = pc.is_in(rows.column(work_rows.CHANGE), value_set=pa.array([int(change) for change in changes], pa.int8()))
    count = pc.sum(wanted).as_py() or 0
    if count == rows.num_rows:
        return rows
    return rows.filter(wanted) if count else rows.slice(0, 0)


def _partition_counts(rows: pa.Table) -> Mapping[str, int]:
    counted = pc.value_counts(rows.column(work_rows.PARTITION_PATH).combine_chunks())
    return {entry["values"]: entry["counts"] for entry in counted.to_pylist()}


def _origin_counts(rows: pa.Table) -> Mapping[FileGroupId, int]:
    """How many of the rows' records are stored in each file group."""
    named = named_groups(*(rows.column(name).combine_chunks() for name in work_rows.PRIOR_FILE_GROUP))
    counts = np.bincount(named.codes, minlength=len(named.groups)).tolist()
    return {group: count for group, count in zip(named.groups, counts, strict=True) if group is not None}
