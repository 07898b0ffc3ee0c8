"""Clustering: small base files of a partition become fewer ones of about the target size, in new file groups.

No record changes, nor since when it is where it is. On the timeline it is Hudi's replacement of file groups by the
operation ``CLUSTER``, announced without a plan: with one, Hudi would keep its own writers off those file groups for as
long as nobody has cleared up after a clustering that died. What another writer changes while it runs is left out:
nothing is lost by leaving it as it was.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import ClassVar, Final

import pyarrow as pa

from rli.commit.begun_write import BegunWrite
from rli.commit.conflicts import ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.commit.retries import write_until_published
from rli.commit.step_clock import OnStep
from rli.errors import ConflictError, SettingsError
from rli.file_group.write_context import FileGroupResult
from rli.hudi.file_names import new_file_id
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.commit_metadata import CLUSTER
from rli.hudi.timeline.instant import Action
from rli.index.contract import TableIndex
from rli.index.placing import PlacesRecords, PlansClustering, Regrouping, Resizing
from rli.model import CommitResult, Step, WriteCounts
from rli.settings import TableSettings
from rli.tasks import TaskRunner, lots_of
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli.write.rewrites.file_group_clustering import ClusteringContext, cluster_file_groups
from rli.write.rewrites.sorted_records import sorting_of
from rli.write.rows.placement import SizedPlacement

_MOST_SORTED: Final = 16
"""New files of the target size into which one task sorts records: it has their row groups in memory, and the values to sort by."""


@dataclass(frozen=True, slots=True)
class ClusteringChoice:
    """Which base files a clustering rewrites, and how.

    Attributes:
        smaller_than: bytes from which on a base file is left alone; None: half the target, or no base file where records are sorted.
        sort_by: columns and expressions by which records are sorted into the new files; none to leave them in their order.
        most_bytes: of sources that are rewritten; None: no limit.
    """

    smaller_than: int | None = None
    sort_by: tuple[str, ...] = ()
    most_bytes: int | None = None


def cluster(
    table: TableDefinition,
    index: TableIndex,
    choice: ClusteringChoice,
    *,
    tasks: TaskRunner,
    attempts: int,
    on_step: OnStep,
    patience: float = math.inf,
) -> CommitResult:
    """Rewrite base files into fewer, or into sorted ones; see ``Table.cluster``.

    Raises:
        InvalidInputError: records cannot be sorted so.
        SettingsError: the index computes file groups, and plans no clusterings, or none that sort.
        LeaseBusyError: the lease was not free for ``patience`` seconds.
    """
    require_writable(table.properties)
    clustering = Clustering(tasks, choice)
    return write_until_published(
        table,
        partial(BegunWrite.begin, table, index, tasks, on_step, Action.REPLACE_COMMIT, patience=patience),
        clustering.prepare,
        attempts,
        clustering.name,
    ).result


@dataclass(frozen=True, slots=True)
class Clustering:
    """Put small file groups together: the work of each attempt, as an ``Operation`` has it, without rows of a caller.

    Attributes:
        tasks: run the pieces.
        choice: what is rewritten.
    """

    name: ClassVar[str] = CLUSTER

    tasks: TaskRunner
    choice: ClusteringChoice

    def prepare(self, write: BegunWrite) -> PreparedWrite:
        """Have the tasks write new file groups; may be called again for another attempt.

        Raises:
            InvalidInputError: records cannot be sorted so.
            SettingsError: the index computes file groups, and plans no clusterings, or none that sort.
            ConflictError: other writers changed all file groups of the plan.
        """
        schema = write.snapshot.schema or pa.schema([])
        index = write.index
        resizing = (
            index.resizing(write.snapshot, self.choice.smaller_than) if isinstance(index, PlansClustering) else None
        )
        plan = self._plan(write, resizing)
        write.on_step(Step.RESOLVED)
        sorting = () if write.snapshot.schema is None else sorting_of(self.choice.sort_by, schema)
        context = ClusteringContext(write.context(schema), write.locator, sorting)
        results, is_changed = list[FileGroupResult](), False
        for written in self.tasks.run(partial(cluster_file_groups, context), plan):
            is_changed |= written is None
            for result in written or ():
                results.append(result)
                write.on_step(Step.FILE_GROUP_WRITTEN)
        write.on_step(Step.WRITTEN)
        if is_changed and not results:
            raise ConflictError(
                f"other writers changed all file groups of this clustering: new file groups={len(plan)}",
                remedy="cluster again later",
            )
        read = ReadSet(frozenset() if resizing is None else resizing.watched)
        return PreparedWrite(results, schema, self.name, WriteCounts(), read, resizing)

    def _plan(self, write: BegunWrite, resizing: Resizing | None) -> Sequence[Regrouping]:
        if resizing is None and isinstance(write.index, PlacesRecords):
            raise SettingsError(
                "the index computes the file group of each record, so that file groups cannot be put together: "
                f"table={write.table.location} index={write.index.url}",
                remedy=(
                    "leave clustering out, or first give the table another kind of index: rli index migrate TABLE --to "
                    "simple:"
                ),
            )
        choice, plan = self.choice, list[Regrouping]()
        if resizing is not None and choice.sort_by:
            raise SettingsError(
                "the index computes the file group of each record, so that records cannot be sorted into files: "
                f"table={write.table.location} index={write.index.url}",
                remedy="leave sort_by out, or first give the table another kind of index: rli index migrate TABLE --to simple:",
            )
        if choice.sort_by:
            plan = _to_sort(write.snapshot, choice.smaller_than)
        elif resizing is None:
            plan = _by_sizes(write.snapshot, choice.smaller_than)
        else:
            plan = [*resizing.regroupings]
        return plan if choice.most_bytes is None else first_regroupings(plan, choice.most_bytes)


def plan_clustering(
    live: Iterable[FileSlice], settings: TableSettings, smaller_than: int | None = None
) -> list[tuple[FileSlice, ...]]:
    """Which file slices to put together.

    The largest first, each goes where there is room for it: so all but one of a partition's new base files are more
    than half full, and will not be clustered again.

    Args:
        live: file slices.
        settings: sizes.
        smaller_than: bytes from which on a base file is left alone; by default half the target, because two such
            files do not fit in one.

    Returns:
        For each new file group its sources: two or more slices of one partition.
    """
    limit = settings.target_file_size // 2 if smaller_than is None else smaller_than
    small: dict[str, list[FileSlice]] = defaultdict(list)
    for file_slice in live:
        if file_slice.size < limit:
            small[file_slice.group.partition_path].append(file_slice)
    clusters = [found for _, slices in sorted(small.items()) for found in _fill(slices, settings.target_file_size)]
    return [found for found in clusters if len(found) > 1]


def planned_regroupings(index: TableIndex, snapshot: Snapshot) -> Sequence[Regrouping]:
    """What a clustering would do; nothing for kinds of index that take none."""
    if isinstance(index, PlansClustering):
        return index.resizing(snapshot, None).regroupings
    return [] if isinstance(index, PlacesRecords) else _by_sizes(snapshot, None)


def first_regroupings(plan: Sequence[Regrouping], most_bytes: int) -> list[Regrouping]:
    """As much of a plan as has sources of so many bytes together, but some of it: what has most sources first."""
    by_gain = sorted(plan, key=lambda regrouping: len(regrouping.sources), reverse=True)
    sizes = accumulate(sum(source.size for source in regrouping.sources) for regrouping in by_gain)
    return [
        regrouping
        for number, (regrouping, size) in enumerate(zip(by_gain, sizes, strict=True))
        if number == 0 or size <= most_bytes
    ]


def _to_sort(snapshot: Snapshot, smaller_than: int | None) -> list[Regrouping]:
    """The file slices of each partition, those of so many new files together."""
    target = snapshot.table.require_settings().target_file_size
    by_partition: dict[str, list[FileSlice]] = defaultdict(list)
    for group, file_slice in sorted(snapshot.slices.items()):
        if group not in snapshot.reserved and (smaller_than is None or file_slice.size < smaller_than):
            by_partition[group.partition_path].append(file_slice)
    plan = list[Regrouping]()
    for slices in by_partition.values():
        for lot in lots_of(slices, lambda one: one.size, _MOST_SORTED * target):
            count = max(1, round(sum(one.size for one in lot) / target))
            if (len(lot), count) != (1, 1):
                file_ids = tuple(new_file_id() for _ in range(count))
                plan.append(Regrouping(tuple(lot), file_ids, SizedPlacement(file_ids, (1,) * count)))
    return plan


def _by_sizes(snapshot: Snapshot, smaller_than: int | None) -> list[Regrouping]:
    free = (file_slice for group, file_slice in snapshot.slices.items() if group not in snapshot.reserved)
    plan = plan_clustering(free, snapshot.table.require_settings(), smaller_than)
    file_ids = [new_file_id() for _ in plan]
    return [
        Regrouping(sources, (file_id,), SizedPlacement((file_id,), (1,)))
        for sources, file_id in zip(plan, file_ids, strict=True)
    ]


def _fill(slices: list[FileSlice], target_size: int) -> list[tuple[FileSlice, ...]]:
    clusters: list[list[FileSlice]] = []
    rooms: list[int] = []
    for file_slice in sorted(slices, key=lambda candidate: (-candidate.size, candidate.group)):
        fitting = next((number for number, room in enumerate(rooms) if room >= file_slice.size), None)
        if fitting is None:
            clusters.append([file_slice])
            rooms.append(target_size - file_slice.size)
        else:
            clusters[fitting].append(file_slice)
            rooms[fitting] -= file_slice.size
    return [tuple(cluster) for cluster in clusters]
