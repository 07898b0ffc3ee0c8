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
from functools import partial
from itertools import accumulate
from typing import Final

import pyarrow as pa

from rli.commit.conflicts import ReadSet
from rli.commit.retries import write_until_committed
from rli.commit.write_transaction import OnStep, PreparedWrite, WriteTransaction
from rli.errors import ConflictError
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.commit_metadata import CLUSTER
from rli.hudi.timeline.instant import Action
from rli.index.contract import TableIndex
from rli.model import CommitResult, Step
from rli.settings import TableSettings
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.write.file_group_clustering import ClusteringContext, cluster_file_groups

_NO_READS: Final = ReadSet(frozenset())


def cluster(
    table: TableDefinition,
    index: TableIndex,
    smaller_than: int | None,
    *,
    tasks: TaskRunner,
    attempts: int,
    on_step: OnStep,
    most_bytes: int | None = None,
    patience: float = math.inf,
) -> CommitResult:
    """Rewrite small base files into fewer, at most so many bytes of them; see ``Table.cluster``.

    Raises:
        LeaseBusyError: the lease was not free for ``patience`` seconds.
    """
    require_writable(table.properties)
    return write_until_committed(
        partial(WriteTransaction.begin, table, index, tasks, on_step, Action.REPLACE_COMMIT, patience=patience),
        partial(_write_clusters, tasks, smaller_than, most_bytes),
        attempts,
    )


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


def first_clusters(plan: Sequence[tuple[FileSlice, ...]], most_bytes: int) -> list[tuple[FileSlice, ...]]:
    """As many new file groups of a plan as have sources of so many bytes together, those of the most sources first."""
    by_gain = sorted(plan, key=len, reverse=True)
    sizes = accumulate(sum(file_slice.size for file_slice in cluster) for cluster in by_gain)
    return [cluster for cluster, size in zip(by_gain, sizes, strict=True) if size <= most_bytes]


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


def _write_clusters(
    tasks: TaskRunner, smaller_than: int | None, most_bytes: int | None, write: WriteTransaction
) -> PreparedWrite:
    schema = write.snapshot.schema or pa.schema([])
    plan = plan_clustering(write.snapshot.slices.values(), write.table.require_settings(), smaller_than)
    if most_bytes is not None:
        plan = first_clusters(plan, most_bytes)
    write.on_step(Step.RESOLVED)
    context = ClusteringContext(write.context(schema), write.locator)
    results = []
    for result in tasks.run(partial(cluster_file_groups, context), plan):
        if result is not None:
            results.append(result)
            write.on_step(Step.FILE_GROUP_WRITTEN)
    write.on_step(Step.WRITTEN)
    if plan and not results:
        raise ConflictError(
            f"other writers changed all file groups of this clustering: new file groups={len(plan)}; cluster "
            "again later"
        )
    return PreparedWrite(results, schema, CLUSTER, 0, _NO_READS)
