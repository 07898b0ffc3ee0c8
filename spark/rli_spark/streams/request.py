"""The request of a micro-batch: its keyed rows, with the locations that the stream's state knows of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli import Scope, SettingsError
from rli.coordination.requests import request_folder_of
from rli.index.contract import TableIndex
from rli.index.locators import FileLocator, Locator
from rli.index.reports import SomeKeys
from rli.view.definition import TableDefinition
from rli.write.engine.contract import Request, TaggedRows, Tagging
from rli.write.rows.keying import Keying
from rli.write.rows.tally import Tally
from rli_spark.engine import SparkEngine
from rli_spark.planning.execution_plan import Stage
from rli_spark.requests.keyed_rows import KeyedRows
from rli_spark.requests.request_parts import PARTS, Parts, telling_received, write_part
from rli_spark.requests.small_requests import request_of
from rli_spark.requests.tie_breaker import Tied
from rli_spark.rows.row_batches import DATA, HASHES, ROWS, packed, unpack
from rli_spark.session.batches import for_look_ups, map_tables
from rli_spark.session.executors import require_reachable
from rli_spark.session.jobs import jobs
from rli_spark.session.running_task import running_task
from rli_spark.streams.known_locations import NOTHING, POSITIONS, KnownLocations, found_together
from rli_spark.streams.tagger import FOUND, POSITION

_WRITTEN: Final = pa.schema([*PARTS, (FOUND, pa.binary()), (POSITIONS, pa.list_(pa.string()))])
"""What tasks say of their rows (``PARTS``), and in rows of their own what the state knows of the keys."""


@dataclass(frozen=True, slots=True)
class StreamRequest(Request):
    """Keyed rows whose locations are known.

    Attributes:
        rows: the request of the rows.
        known: the locations.
        schema: of the records.
        bytes_per_row: on average.
        received: all rows of the micro-batch.
    """

    rows: Request
    known: KnownLocations
    schema: pa.Schema
    bytes_per_row: float
    received: Tally

    def tag(self, locator: Locator, tagging: Tagging) -> AbstractContextManager[TaggedRows]:
        return self.rows.tag(self.known.as_of(locator) if isinstance(locator, FileLocator) else locator, tagging)

    def files_of(self, save: Callable[[pa.Table, str], str | None]) -> list[str]:
        return self.rows.files_of(save)

    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        return self.rows.some_keys(choose)


@dataclass(frozen=True, slots=True)
class StreamEngine(SparkEngine):
    """Writes a micro-batch that the stateful operator has tagged.

    Attributes:
        schema: of the records.
        scope: where a record key was unique when the stream was started: of rows that were one record, one was kept.
        requested: the locations that were known of the keys, once there is a request.
    """

    schema: pa.Schema
    scope: Scope
    requested: list[KnownLocations]

    @contextmanager
    def request(
        self, source: DataFrame, keying: Keying, table: TableDefinition, index: TableIndex
    ) -> Iterator[Request]:
        """The frame is computed once: Spark takes over the state that it leaves."""
        if index.scope is not self.scope:
            raise SettingsError(
                f"the table was given an index of another scope since the stream was started: table={table.location} "
                f"index={index.url} scope at the start={self.scope}",
                remedy="start the stream again",
            )
        require_reachable(self.spark, index)
        with request_folder_of(table, index) as folder:
            execution = self.plan_of(table)
            storage, path, brings = folder.storage, folder.path, execution.brought_bytes
            with jobs(self.spark, Stage.REQUEST):
                told = map_tables(
                    source,
                    lambda tables: _written(tables, lambda rows: write_part(storage, path, rows, brings)),
                    _WRITTEN,
                ).collect()
            parts = Parts.accepted((row for row in told if row[POSITIONS] is None), path)
            rows = KeyedRows(Tied(keying), self.schema, parts)
            inner = request_of(self.spark, execution, folder, rows)
            known = KnownLocations.of(row for row in told if row[POSITIONS] is not None)
            self.requested.append(known)
            yield StreamRequest(inner, known, inner.schema, inner.bytes_per_row, inner.received)


def _written(
    tables: Iterator[pa.Table], write: Callable[[Iterable[pa.Table]], Iterator[pa.Table]]
) -> Iterator[pa.Table]:
    """Write the rows of row batches that the stateful operator has tagged; gives tables of ``_WRITTEN``."""
    found, positions, received = list[pa.Table](), set[str](), Tally()

    def rows() -> Iterator[pa.Table]:
        nonlocal received
        for table in tables:
            told = (table.column(name).to_pylist() for name in (ROWS, HASHES))
            received += Tally.total(Tally(*counted) for counted in zip(*told, strict=True))
            for content, known, position in zip(*(table.column(name) for name in (DATA, FOUND, POSITION)), strict=True):
                if known.is_valid:
                    found.append(unpack(known.as_buffer()))
                positions.add(position.as_py() or NOTHING)
                yield unpack(content.as_buffer())

    for part in write(for_look_ups(rows())):
        nothing = [pa.nulls(part.num_rows, _WRITTEN.field(name).type) for name in (FOUND, POSITIONS)]
        yield pa.table([*telling_received(part, received).columns, *nothing], schema=_WRITTEN)
    if positions:
        content = packed(found_together(found))
        row = {"task": running_task().partitionId(), FOUND: content, POSITIONS: sorted(positions)}
        yield pa.Table.from_pylist([row], _WRITTEN)
