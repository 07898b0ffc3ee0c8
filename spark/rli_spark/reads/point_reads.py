"""Reading the records of some keys: look-ups batch by batch, then the files that hold them, a task for each few."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

from rli import Table
from rli.commit.readiness import await_synced
from rli.errors import ConflictError
from rli.hudi.table_keys import TableKeys
from rli.index.locators import Locator
from rli.locations import keys_by_group
from rli.model import FileGroupId
from rli.reads import point_reads
from rli.table.table import opened_table
from rli.view.file_slices import FileSlice
from rli.view.given_keys import table_keys
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.snapshot import Snapshot
from rli_spark.planning.resources import parallelism_of
from rli_spark.session.batches import arrow_schema, for_look_ups, map_tables
from rli_spark.session.executors import require_reachable
from rli_spark.session.jobs import jobs

_GROUP: Final = ("partition_path", "file_id")
_CHANGED: Final = "changed"
_LOCATED: Final = pa.schema(
    [pa.field("record_key", pa.string()), *(pa.field(name, pa.string()) for name in _GROUP), (_CHANGED, pa.bool_())]
)
"""Keys that the table holds. A row that says ``changed``, and nothing else, stands for keys to look up again."""


@dataclass(frozen=True, slots=True)
class LocatedFrame:
    """Record keys of a frame and the files that hold their records, as of one commit.

    Attributes:
        snapshot: the table as of that commit.
        keys: rows of ``_LOCATED``, which Spark keeps.
        slices: of all file groups that the rows name.
    """

    snapshot: Snapshot
    keys: DataFrame
    slices: Mapping[FileGroupId, FileSlice | None]

    def records(self, columns: Sequence[str]) -> DataFrame:
        """The records, in any order."""
        schema = self.snapshot.scan(columns).schema
        sizes = (file_slice.size for file_slice in self.slices.values() if file_slice is not None)
        tasks = max(1, min(len(self.slices), parallelism_of(self.keys.sparkSession).for_bytes(sum(sizes))))
        # Tasks get the slices that they need, and not what the driver has listed beside them.
        snapshot, slices = replace(self.snapshot), self.slices

        def read(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
            located = pa.concat_tables([_LOCATED.empty_table(), *tables])
            for group, keys in keys_by_group(located).items():
                yield point_reads.records_of(snapshot, schema, group, slices[group], keys)

        return map_tables(self.keys.repartition(tasks, *_GROUP), read, schema)


def look_up(table: Table, keys: DataFrame, timeout: float) -> LocatedFrame:
    """Look the keys of a frame up, all as of one commit.

    Args:
        table: the table.
        keys: has its record-key columns.
        timeout: seconds; for how long to wait for writers, and to begin again where they change the keys.

    Raises:
        SchemaError: a record-key column is missing.
        IndexNotReadyError: the index has not seen all commits of the table after that time.
    """
    definition, index = opened_table(table).refreshed()
    require_reachable(keys.sparkSession, index)
    forming = table_keys(definition)
    forming.record_keys(arrow_schema(keys).empty_table())
    fields = keys.select(*(F.col(f"`{name}`") for name in definition.key_generator.record_key_fields))
    deadline = time.monotonic() + timeout
    second = SecondLook(definition)
    while True:
        state = await_synced(definition, index, max(0.0, deadline - time.monotonic()))
        try:
            with jobs(keys.sparkSession, "look keys up"):
                locator = state.locator()
                # Kept: the same keys may be elsewhere when the frame is computed.
                located = _located(fields, forming, locator).localCheckpoint()
                rows = located.select(*_GROUP, _CHANGED).distinct().collect()
            if not any(row[_CHANGED] for row in rows) and point_reads.has_seen_all(locator, state.snapshot):
                slices = point_reads.slices_of(state.snapshot, [FileGroupId(row[0], row[1]) for row in rows])
                if slices is not None:
                    return LocatedFrame(state.snapshot, located, slices)
        except OVERTAKEN as problem:
            second.require_change(problem)
        point_reads.require_time_left(index, deadline)


def _located(keys: DataFrame, forming: TableKeys, locator: Locator) -> DataFrame:
    def find(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in for_look_ups(tables):
            try:
                found = locator.locate_all(pc.unique(forming.record_keys(table)))
            except ConflictError:
                yield pa.table([*([None] for _ in _LOCATED.names[1:]), [True]], schema=_LOCATED)
                return
            rows = found.select(_LOCATED.names[:-1])
            yield rows.append_column(_CHANGED, pa.repeat(pa.scalar(value=False), rows.num_rows))

    return map_tables(keys, find, _LOCATED)
