"""The keyed rows of a frame: each task of the frame is computed once, and its rows are kept (P19)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from rli.coordination.requests import RequestFolder
from rli.model import Scope
from rli.write.rows.keying import Keying
from rli.write.rows.tally import Tally
from rli_spark.planning.execution_plan import ExecutionPlan, Stage
from rli_spark.requests.arranging import Load
from rli_spark.requests.request_files import COMPRESSION
from rli_spark.requests.request_parts import PARTS, Parts, telling_received, write_part
from rli_spark.requests.small_frames import rows_of_small
from rli_spark.requests.tie_breaker import Tied
from rli_spark.session.batches import arrow_schema, for_look_ups, map_tables
from rli_spark.session.jobs import jobs


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Keyed rows, which outlive the executors that made them.

    Spark's cache would be no place for them: what is lost of it is computed again, and a frame may give other rows then.

    Attributes:
        keying: what formed the rows.
        schema: of the records.
        parts: the rows of each task.
        load: if the rows are those of a load.
    """

    keying: Keying
    schema: pa.Schema
    parts: Parts
    load: Load | None = None

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        keying: Keying,
        folder: RequestFolder,
        execution: ExecutionPlan,
        load_of: Scope | None = None,
    ) -> KeyedRows:
        """Compute the keyed rows of a frame.

        Args:
            frame: the input.
            keying: forms them.
            folder: takes the files.
            execution: decides how many rows may come to the driver.
            load_of: if the table holds no records yet: where its keys are unique.
        """
        storage, path, brings = folder.storage, folder.path, execution.brought_bytes
        # Fails here, on no records, if a column is missing, or has a wrong type or a reserved name.
        schema = keying.schema(keying.keyed(arrow_schema(frame).empty_table()).schema)
        if keying.has_records:
            keying = Tied(keying)
        load = None if load_of is None else Load(load_of, keying.distinct)

        def write(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
            received = Tally()

            def keyed() -> Iterator[pa.Table]:
                nonlocal received
                for table in for_look_ups(tables):
                    rows = keying.keyed(table)
                    received += keying.received(rows)
                    # The rows of a load are arranged in a way that shows whether keys repeat.
                    yield rows if load else keying.distinct(rows)

            compression = None if storage.is_local else COMPRESSION
            for part in write_part(storage, path, keyed(), brings, load=load, compression=compression):
                yield telling_received(part, received)

        with jobs(frame.sparkSession, Stage.REQUEST):
            rows = rows_of_small(frame, execution)
            if rows is not None:
                keyed = keying.keyed(rows)
                parts = Parts.of_driver(folder, keyed, execution.held_bytes, load=load)
                return cls(keying, schema, replace(parts, received=keying.received(keyed)), load)
            told = map_tables(frame, write, PARTS).collect()
            return cls(keying, schema, Parts.accepted(told, path), load)
