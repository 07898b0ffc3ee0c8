"""Row batches: rows on their way between Spark's tasks, many of them in one binary cell.

Spark touches every cell of every row it keeps, sorts, shuffles or hands to Python. Of row batches it sees a few cells,
however many rows there are, and the rows stay in Arrow's own format from the task that makes them to the task that writes
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import count
from typing import Final, TypeVar

import mmh3
import pyarrow as pa
from pyspark.sql import DataFrame

Item = TypeVar("Item")

ROWS: Final = "rows"
"""Column of a row batch: how many rows are in it."""

DATA: Final = "data"
"""Column of a row batch: the rows, as a stream of Arrow's IPC format."""

HASHES: Final = "hashes"
"""Column of a row batch: the sum of the hashes of its keys; see ``rli_spark.tally``."""

SHUFFLE_KEY: Final = "shuffle_key"
"""Column of a row batch: says which task gets it; see ``sent``."""

_SPARK_HASH_SEED: Final = 42


def table_of(batches: Iterable[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """Row batches, each the values of its columns in their order, as a table of ``schema``."""
    return pa.Table.from_pylist([dict(zip(schema.names, batch, strict=True)) for batch in batches], schema)


def packed(rows: pa.Table) -> bytes:
    """Rows as the content of one row batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack(content: pa.Buffer | bytes) -> pa.Table:
    """The rows of one row batch, without copying them."""
    return pa.ipc.open_stream(pa.py_buffer(content)).read_all()


def sent(batches: DataFrame, tasks: int) -> DataFrame:
    """The row batches, each in the task of its ``SHUFFLE_KEY``, one of ``shuffle_keys(tasks)``."""
    return batches.repartition(tasks, SHUFFLE_KEY)


def shuffle_keys(tasks: int) -> list[int]:
    """One shuffle key per task, each hashing to a partition of its own.

    Left to itself, Spark spreads a few numbers by their hash, which gives one task nothing and the next one the work
    of three. The hash is that of ``org.apache.spark.unsafe.hash.Murmur3_x86_32``; were it another one some day, the
    tasks would be uneven again, no more.
    """
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(mmh3.hash(number.to_bytes(4, "little"), _SPARK_HASH_SEED) % tasks, number)
        if len(found) == tasks:
            break
    return [found[task] for task in range(tasks)]


def shared_out(weights: Mapping[Item, float], tasks: int) -> dict[Item, int]:
    """The task of each item, so that tasks have about the same weight: the heaviest item first, to the least laden."""
    laden: list[tuple[float, int]] = [(0.0, task) for task in range(tasks)]
    heapify(laden)
    chosen: dict[Item, int] = {}
    heaviest_first: Sequence[Item] = sorted(weights, key=lambda item: -weights[item])
    for item in heaviest_first:
        weight, task = laden[0]
        chosen[item] = task
        heapreplace(laden, (weight + weights[item], task))
    return chosen
