"""What a write was given is what it writes, or the attempt is void (P19)."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli import CorruptTableError, RliError, Step
from rli.coordination.requests import remove_abandoned_requests
from rli.coordination.shared_records import shared_records
from rli.coordination.signs import signs_of_requests
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.storage import Storage
from rli.table.table import opened_table
from rli.view import paths
from rli.write.rows.tally import Tally
from rli_spark.requests.request_files import RequestFile
from rli_spark.rows.row_files import RowFile, rows_of_files
from tests.support.children import was_killed
from tests.support.damage import FUZZ_ROUNDS, limit_memory
from tests.support.damage import damaged as damaged_bytes
from tests.support.soak import in_ci
from tests.support.tables import assert_nothing_left_over, records, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

BATCH = [("a", "x", 2, 2.0), ("b", "y", 2, 2.0), ("new", "x", 2, 2.0)]


def damaged(content: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    """A file of a request with other rows in the place of its first batch."""
    source = pa.BufferReader(content)
    changed = _stream_of(change(pa.ipc.open_stream(source).read_all()).combine_chunks(), None)
    end: int = source.tell()
    assert len(changed) <= end, "the rows leave their place"
    return changed.ljust(end, b"\0") + content[end:]


class Damage:
    """Changes the files of a request as an attempt begins, or those of its tagged rows, and puts them back after some attempts."""

    def __init__(
        self, table: rli.Table, change: Callable[[pa.Table], pa.Table], attempts: int, at: Step = Step.INFLIGHT
    ) -> None:
        self._storage, self._change, self._left = opened_table(table).definition.storage, change, attempts
        self._at = at
        self._original: dict[str, bytes] = {}

    def __call__(self, step: Step) -> None:
        if step is not self._at:
            return
        found = self._storage.list_files(paths.REQUESTS, recursive=True)
        # Tagged rows are in a folder of the attempt.
        depth = max(file.path.count("/") for file in found)
        for file in (file for file in found if file.path.count("/") == depth):
            content = self._original.setdefault(file.path, self._storage.read_bytes(file.path) or b"")
            self._storage.write_bytes(file.path, damaged(content, self._change) if self._left else content)
        self._left = max(self._left - 1, 0)


def lose_a_row(rows: pa.Table) -> pa.Table:
    return rows.slice(1)


def repeat_a_row(rows: pa.Table) -> pa.Table:
    """In the place of another one."""
    return pa.concat_tables([rows.slice(0, 1), rows.slice(0, rows.num_rows - 1)])


def change_keys(rows: pa.Table) -> pa.Table:
    keys = pa.array([f"{key}'" for key in rows.column("_rli_record_key").to_pylist()])
    return rows.set_column(rows.schema.get_field_index("_rli_record_key"), "_rli_record_key", keys)


@pytest.mark.parametrize(
    ("work", "change"),
    in_ci(
        [("upsert", lose_a_row), ("upsert", repeat_a_row), ("delete", change_keys)],
        of=[*product(("upsert", "delete"), (lose_a_row, repeat_a_row, change_keys))],
    ),
)
def test_unrequested_rows_void_every_attempt(
    spark: SparkSession, table: rli.Table, change: Callable[[pa.Table], pa.Table], work: str
) -> None:
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    before = rows_of(table)
    frame = spark.createDataFrame(BATCH, "id string, city string, ts long, v double").coalesce(1)
    write = rli_spark.upsert if work == "upsert" else rli_spark.delete
    with pytest.raises(rli.VoidAttemptError, match=r"other records than requested.*nothing was written"):
        write(frame, table, attempts=1, on_step=Damage(table, change, 1))
    assert rows_of(table) == before
    assert_nothing_left_over(table)


def test_a_void_attempt_is_tried_again(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    frame = spark.createDataFrame(BATCH, "id string, city string, ts long, v double").coalesce(1)
    result = rli_spark.upsert(frame, table, on_step=Damage(table, lose_a_row, 1))
    assert (result.inserted, result.updated, result.moved) == (1, 1, 1)
    assert [(row["id"], row["city"]) for row in rows_of(table)] == [("a", "x"), ("b", "y"), ("new", "x")]


def test_changed_tagged_rows_void_an_attempt(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    frame = spark.createDataFrame(BATCH, "id string, city string, ts long, v double").coalesce(1)
    damage = Damage(table, lose_a_row, 1, at=Step.TAGGED)
    with pytest.raises(rli.VoidAttemptError, match="other records than requested"):
        rli_spark.upsert(frame, table, attempts=1, on_step=damage)
    result = rli_spark.upsert(frame, table, on_step=Damage(table, lose_a_row, 1, at=Step.TAGGED))
    assert (result.inserted, result.updated, result.moved) == (1, 1, 1)
    assert [(row["id"], row["city"]) for row in rows_of(table)] == [("a", "x"), ("b", "y"), ("new", "x")]
    assert_nothing_left_over(table)


def test_removed_request_is_not_empty(spark: SparkSession, table: rli.Table) -> None:
    shared = shared_records(opened_table(table).definition, opened_table(table).index)

    def remove(step: Step) -> None:
        if step is Step.INFLIGHT:
            for name, holder in shared.scan_control("request/"):
                assert shared.compare_and_set(name, holder, None)
            remove_abandoned_requests(opened_table(table).definition.storage, signs_of_requests(shared))

    frame = spark.createDataFrame(BATCH, "id string, city string, ts long, v double")
    with pytest.raises(rli.LeaseLostError, match="write the records again"):
        rli_spark.upsert(frame, table, attempts=2, on_step=remove)
    assert table.read().num_rows == 0
    assert_nothing_left_over(table)


@given(st.lists(st.text(min_size=1), unique=True, min_size=1))
def test_tally_covers_keys_in_any_order(keys: list[str]) -> None:
    tally = Tally.of(pa.array(keys))
    assert Tally.of(pa.array(sorted(keys))) == tally
    parts = Tally.of(pa.array(keys[:1])) + Tally.of(pa.array(keys[1:], pa.string()))
    assert parts == tally
    assert Tally.of(pa.array([*keys[1:], keys[0] + "'"])) != tally
    assert Tally.of(pa.array([*keys, keys[0]])) != tally


def test_damaged_request_file_is_clear_error(tmp_path: Path) -> None:
    assert not was_killed(_read_damaged, tmp_path), "the reader was killed"


def test_request_stream_without_rows_is_error(tmp_path: Path) -> None:
    storage, ends = Storage(str(tmp_path)), np.zeros(1, np.uint32)
    schema = pa.schema({"key": pa.string(), "_rli_hash": pa.uint32()})
    content = _stream_of(schema.empty_table(), None)
    storage.write_bytes("file", content)
    file = RequestFile("file", Tally(), 0, ends, ends, np.array([0, len(content)]))
    with pytest.raises(CorruptTableError, match="damaged"):
        file.rows(storage, 0, 1 << 32)


def test_damaged_tagged_rows_are_clear_error(tmp_path: Path) -> None:
    assert not was_killed(_read_damaged_rows, tmp_path), "the reader was killed"


def _read_damaged_rows(folder: Path) -> None:
    limit_memory()
    seed = random.randrange(1 << 32)
    rng, storage = random.Random(seed), Storage(str(folder))
    schema = work_rows.work_schema(pa.schema([("more", pa.list_(pa.string()))]))
    keys, nothing = [f"k{n}" for n in range(100)], [None] * 100
    working = [keys, [int(Change.INSERT)] * 100, *[nothing] * (len(work_rows.WORKING_COLUMNS) - 2)]
    rows = pa.table([*working, [["x"] * (n % 3) for n in range(100)]], schema=schema)
    for compression in (None, "lz4"):
        intact = _stream_of(rows, compression)
        for _ in range(FUZZ_ROUNDS // 3):
            content = damaged_bytes(intact, rng)
            storage.write_bytes("file", content)
            try:
                str([found.to_pylist() for found in rows_of_files(storage, [RowFile("file", Tally(), 0)])])
            except RliError:
                continue
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}: seed={seed} content={content!r}") from error


def _read_damaged(folder: Path) -> None:
    limit_memory()
    seed = random.randrange(1 << 32)
    rng, storage = random.Random(seed), Storage(str(folder))
    hashes = np.arange(100, dtype=np.uint32)
    rows = pa.table(
        {"key": [f"k{n}" for n in range(100)], "more": [["x"] * (n % 3) for n in range(100)], "_rli_hash": hashes}
    )
    for compression in (None, "lz4"):
        contents = [_stream_of(rows.slice(first, 50), compression) for first in (0, 50)]
        offsets = np.cumsum([0, *map(len, contents)])
        intact = b"".join(contents)
        file = RequestFile("file", Tally(), 0, hashes[::50], hashes[49::50], offsets)
        for _ in range(FUZZ_ROUNDS // 3):
            content = damaged_bytes(intact, rng)
            storage.write_bytes("file", content)
            try:
                found = file.rows(storage, 0, 1 << 32)
                str([table.to_pylist() for table in found])
            except RliError:
                continue
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}: seed={seed} content={content!r}") from error


def _stream_of(rows: pa.Table, compression: str | None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content
