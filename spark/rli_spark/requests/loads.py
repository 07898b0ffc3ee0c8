"""Writing a load: all rows of a request are new, and go from its files to those of the table, a file group at a time.

No row is tagged and none is shuffled: the rows of a partition lie together in the files of the request, ordered by the
hashes that share them out over file groups. One look at their fingerprints tells that no key occurs twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from rli.coordination.requests import RequestFolder
from rli.file_group import work_rows
from rli.file_group.write_context import FileGroupResult
from rli.index.locators import Unlocated
from rli.model import FileGroupId
from rli.storage import Storage
from rli.write.engine.contract import TaggedRows, Tagging
from rli.write.engine.workload import WorkloadProfile
from rli.write.engine.write_plan import WritePlan
from rli.write.rows.late_moves import LateMoves
from rli.write.rows.placement import SizedPlacement
from rli.write.rows.tally import Tally, require_same
from rli_spark.planning.execution_plan import ExecutionPlan
from rli_spark.requests.arranging import FINGERPRINT
from rli_spark.requests.request_files import RequestFile, key_range, read_rows, tally_of_files
from rli_spark.session.batches import map_numbers
from rli_spark.session.jobs import jobs
from rli_spark.session.running_task import FILE_GROUP_TOKENS
from rli_spark.tasks import SparkTasks

_LOOKED_AT: Final = pa.schema([("keys", pa.int64()), ("hashes", pa.int64()), ("repeated", pa.bool_())])


@dataclass(frozen=True, slots=True)
class LoadedRows(TaggedRows):
    """The rows of a request, of which each inserts a record.

    Attributes:
        spark: the session.
        execution: decides how many tasks work.
        folder: of the request.
        files: of the request, by partition.
        tagging: makes work rows of them.
        locator: as of the attempt's snapshot.
        duplicates: rows that tasks left out of the files, because another row has their key.
    """

    spark: SparkSession
    execution: ExecutionPlan
    folder: RequestFolder
    files: tuple[RequestFile, ...]
    tagging: Tagging
    locator: Unlocated
    duplicates: int
    profile: WorkloadProfile = field(init=False)

    def __post_init__(self) -> None:
        gained = sum((file.load.gained for file in self.files if file.load), Counter[str]())
        object.__setattr__(self, "profile", WorkloadProfile(inserted=gained, duplicates=self.duplicates))

    def without_late_moves(self, late: LateMoves) -> TaggedRows:  # noqa: ARG002  (none moves)
        return self

    def keys_of_moves(self, most: int) -> list[str]:  # noqa: ARG002
        return []

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        self.folder.require_kept()
        write = partial(_write_group, self.folder.storage, self.files, self.tagging, self.locator, plan)
        largest_first = sorted(plan.sizes, key=lambda group: -plan.sizes[group])
        self.execution.write_load(plan.sizes.values())
        written = SparkTasks(self.spark).run(write, largest_first)
        require_same("written", tally_of_files(self.files), Tally.total(tally for _, tally in written))
        return [result for result, _ in written if result is not None]


def _write_group(  # noqa: PLR0917  (called by tasks through ``partial``)
    storage: Storage,
    files: Sequence[RequestFile],
    tagging: Tagging,
    locator: Unlocated,
    plan: WritePlan,
    group: FileGroupId,
) -> tuple[FileGroupResult | None, Tally]:
    """Write a file group, all of whose records are in the files of a request: a task."""
    placement = plan.placing.placements[group.partition_path]
    if not isinstance(placement, SizedPlacement):
        raise TypeError(f"loads have no placement of this kind: {type(placement).__name__}")
    hashes = placement.hashes_of(group.file_id)
    parts = list(read_rows(storage, files, *hashes, partition_path=group.partition_path))
    if not parts:
        # By chance, none of a few rows has a hash for this file group.
        return None, Tally()
    rows = tagging(pa.concat_tables(parts), locator).rows
    return plan.writing.write(group, rows, FILE_GROUP_TOKENS.next()), Tally.of(rows.column(work_rows.RECORD_KEY))


def all_differ(
    spark: SparkSession, execution: ExecutionPlan, folder: RequestFolder, files: Sequence[RequestFile]
) -> bool:
    """Whether no key occurs twice in the scope of the index, in the files of a load.

    Two keys may share a fingerprint by chance: then they are taken for one that repeats.

    Raises:
        VoidAttemptError: the tasks have read other fingerprints than were written.
    """
    if not files:
        return True
    storage = folder.storage
    fingerprints = [file.load.fingerprints for file in files if file.load]
    size = sum(file.size for file in fingerprints)
    decided = execution.compare_fingerprints(tally_of_files(files).keys, size)
    ranges = decided.tasks or 1

    def look(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            tables = read_rows(storage, fingerprints, *key_range(number, ranges))
            found = [table.column(FINGERPRINT).to_numpy() for table in tables]
            read = np.concatenate([np.empty(0, np.uint64), *found])
            read.sort(kind="stable")
            tally = Tally.of_hashes(read)
            yield pa.table([[tally.keys], [tally.hashes], [bool((read[1:] == read[:-1]).any())]], schema=_LOOKED_AT)

    folder.require_kept()
    if decided.by_driver:
        told = [row for table in look(iter([0])) for row in table.to_pylist()]
    else:
        with jobs(spark, "compare fingerprints"):
            told = [row.asDict() for row in map_numbers(spark, ranges, look, _LOOKED_AT).collect()]
    require_same("read", tally_of_files(fingerprints), Tally.total(Tally(row["keys"], row["hashes"]) for row in told))
    return not any(row["repeated"] for row in told)
