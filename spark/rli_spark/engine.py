"""Spark as an engine of writes.

The driver plans and commits; executors form keys, look them up, merge and write. Small writes the driver does itself, once
the executors have given it the rows. What runs in executors may run more than once: nothing that it does is visible before
the driver publishes the results that it accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rli.coordination.requests import request_folder_of
from rli.index.contract import TableIndex
from rli.index.placing import PlacesRecords
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli.write.engine.contract import Engine, Request
from rli.write.rows.keying import Keying
from rli_spark.planning.execution_plan import LIMITS, Decision, ExecutionPlan, Limits
from rli_spark.planning.parallelism import Parallelism
from rli_spark.planning.resources import parallelism_of, resources_of
from rli_spark.requests.keyed_rows import KeyedRows
from rli_spark.requests.small_requests import request_of
from rli_spark.session.batches import map_numbers
from rli_spark.session.executors import require_reachable
from rli_spark.tasks import SparkTasks


@dataclass(frozen=True, slots=True)
class SparkEngine(Engine):
    """Writes tables from data frames, on the executors of a Spark session.

    Attributes:
        spark: the session.
        limits: of the driver's work.
    """

    spark: SparkSession
    limits: Limits = field(default=LIMITS, kw_only=True)
    flushes_in_tasks: ClassVar[bool] = True

    @property
    def tasks(self) -> TaskRunner:
        return SparkTasks(self.spark)

    @property
    def workers(self) -> TaskRunner:
        return SparkTasks(self.spark)

    def stored_records(
        self, slices: Sequence[FileSlice], read: Callable[[FileSlice], pa.Table], schema: pa.Schema
    ) -> DataFrame:
        def run(numbers: Iterator[int]) -> Iterator[pa.Table]:
            for number in numbers:
                yield read(slices[number])

        return map_numbers(self.spark, len(slices), run, schema, parallelism_of(self.spark).for_pieces(len(slices)))

    @contextmanager
    def request(
        self, source: DataFrame, keying: Keying, table: TableDefinition, index: TableIndex
    ) -> Iterator[Request]:
        """The frame is computed, and the rows that count of each of its tasks are kept until the context ends (P19)."""
        require_reachable(self.spark, index)
        with request_folder_of(table, index) as folder:
            # A load writes rows as they are, and may have no deletes among them.
            may_load = (
                keying.has_records and not isinstance(index, PlacesRecords) and not keying.may_delete(source.columns)
            )
            is_load = may_load and Snapshot.now(table).is_unwritten
            load_of = index.scope if is_load else None
            execution = self.plan_of(table, is_load=is_load)
            rows = KeyedRows.of(source, keying, folder, execution, load_of=load_of)
            yield request_of(self.spark, execution, folder, rows)

    def plan_of(self, table: TableDefinition, *, is_load: bool = False) -> ExecutionPlan:
        """Decides where the stages of a write run; tells each decision as the log event ``execution.plan``.

        Args:
            table: that is written.
            is_load: whether the table holds no records yet.

        Raises:
            SettingsError: a setting of the session is no size.
        """
        parallelism = parallelism_of(self.spark)
        tell = partial(_log, table.location, parallelism)
        return ExecutionPlan(resources_of(self.spark), parallelism, is_load, self.limits, tell)


def _log(table: str, parallelism: Parallelism, decision: Decision) -> None:
    events.EXECUTION_PLAN.log(
        table=table,
        stage=str(decision.stage),
        place=str(decision.place),
        jobs=decision.jobs,
        tasks=decision.tasks,
        # To ask a server of Spark Connect takes a job.
        cores=parallelism.cores() if decision.tasks else None,
        rows=decision.rows,
        bytes=decision.size,
        files=decision.files,
        reason=decision.reason,
    )
