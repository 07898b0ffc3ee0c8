"""The first write of a table goes from the frame to the table's files without a look-up, and gives what any write gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import Step
from rli.codec.key_codec import routing_hashes
from rli.file_group import work_rows
from rli.model import Scope
from rli.write.rows.placement import SizedPlacement
from rli_spark.requests.arranging import HASH, Load, arranged_for_load
from tests.spark.test_requests import Damage, lose_a_row, repeat_a_row
from tests.spark.test_small_writes import COLUMNS, jobs_of
from tests.support.lanes import first_on_every_spark
from tests.support.spark import small_writes
from tests.support.tables import assert_nothing_left_over, check_stored, records, rows_of

ROWS = [(f"k{n}", f"c{n % 3}", n % 5, float(n)) for n in range(300)]
"""More than fit a file group, in each partition."""

AGAIN_HERE = ("k1", "c1", 9, -1.0)
AGAIN_ELSEWHERE = ("k1", "c2", 9, -1.0)


def frame_of(spark: SparkSession, rows: list[tuple[str, str, int, float]]) -> DataFrame:
    return spark.createDataFrame(rows, COLUMNS)


@pytest.mark.spark
@pytest.mark.invariant("P19")
@pytest.mark.parametrize(
    ("extra", "scope", "small", "jobs"),
    first_on_every_spark(
        [
            ([], Scope.GLOBAL, 0, 3),
            ([AGAIN_HERE], Scope.GLOBAL, 0, 4),
            ([AGAIN_ELSEWHERE], Scope.PARTITION, 0, 3),
            # More than the fingerprints have, and less than the rows.
            ([], Scope.GLOBAL, 5_000, 2),
            ([AGAIN_ELSEWHERE], Scope.GLOBAL, 5_000, 3),
        ]
    ),
)
def test_load_equals_any_write(
    spark: SparkSession,
    tmp_path: Path,
    extra: list[tuple[str, str, int, float]],
    scope: Scope,
    *,
    small: int,
    jobs: int,
) -> None:
    tables = [
        rli.create_table(
            tmp_path / engine,
            record_key="id",
            partition_by="city",
            ordering="ts",
            index=f"lmdb://{tmp_path / engine}-index?scope={scope}",
            target_file_size=4 * 1024,
        )
        for engine in ("spark", "local")
    ]
    by_spark, local = tables
    done = list[rli.CommitResult]()
    with small_writes(spark, small):
        taken = jobs_of(spark, lambda: done.append(rli_spark.upsert(frame_of(spark, ROWS + extra), by_spark)))
    expected = local.upsert(records(*ROWS, *extra))
    assert (done[0].inserted, done[0].unchanged) == (expected.inserted, expected.unchanged)
    assert rows_of(by_spark) == rows_of(local)
    assert done[0].files_created > len({row[1] for row in ROWS})
    # The request, a look at its fingerprints (few: by the driver), and the files; rows of one key go the way of all writes.
    assert taken == jobs
    check_stored(by_spark)
    assert_nothing_left_over(by_spark)


@pytest.mark.one_spark
@pytest.mark.spark
def test_insert_into_empty_table_keeps_first(spark: SparkSession, table: rli.Table) -> None:
    result = rli_spark.insert(frame_of(spark, [*ROWS, ("k4", "c2", 0, -1.0)]), table)
    assert result.inserted == len(ROWS)
    assert {row["v"] for row in rows_of(table) if row["id"] == "k4"} == {-1.0}


@pytest.mark.one_spark
@pytest.mark.spark
@pytest.mark.invariant("P5")
def test_concurrent_loads_insert_key_once(spark: SparkSession, table: rli.Table) -> None:
    """The other writer commits between the look at the empty table and this commit."""
    others = list[rli.CommitResult]()

    def race(step: Step) -> None:
        if step is Step.TAGGED and not others:
            others.append(rli.open_table(table.location).upsert(records(("k1", "c2", 9, 9.0), ("other", "c0", 1, 1.0))))

    result = rli_spark.upsert(frame_of(spark, ROWS), table, on_step=race)
    assert (result.attempts, result.inserted, result.unchanged) == (2, len(ROWS) - 1, 1)
    assert [row["v"] for row in rows_of(table) if row["id"] == "k1"] == [9.0]
    assert len(rows_of(table)) == len(ROWS) + 1
    check_stored(table)
    assert_nothing_left_over(table)


@pytest.mark.one_spark
@pytest.mark.spark
@pytest.mark.parametrize("change", [lose_a_row, repeat_a_row])
def test_load_of_unrequested_rows_is_void(spark: SparkSession, table: rli.Table, change: object) -> None:
    frame = spark.createDataFrame([row for row in ROWS if row[1] == "c0"], COLUMNS).coalesce(1)
    with pytest.raises(rli.RliError, match=r"write (again|the records again)"):
        rli_spark.upsert(frame, table, attempts=1, on_step=Damage(table, change, 1))  # type: ignore[arg-type]
    assert rows_of(table) == []
    assert_nothing_left_over(table)


KEYED = pa.schema([(work_rows.RECORD_KEY, pa.string()), (work_rows.WANTED_PARTITION_PATH, pa.string())])


@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from("xyz")), unique_by=lambda row: row[0], min_size=1))
def test_load_rows_follow_partition_and_hash(rows: list[tuple[str, str]]) -> None:
    keyed = pa.table([[key for key, _ in rows], [path for _, path in rows]], schema=KEYED)
    arranged = arranged_for_load(keyed, Load(Scope.GLOBAL, lambda table: table))
    found = [
        (key, run.partition_path) for run in arranged.runs for key in run.rows.column(work_rows.RECORD_KEY).to_pylist()
    ]
    assert sorted(found) == sorted(rows)
    for run in arranged.runs:
        hashes = run.rows.column(HASH).to_pylist()
        assert hashes == sorted(routing_hashes(run.rows.column(work_rows.RECORD_KEY).combine_chunks()).tolist())


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=5), st.lists(st.text(min_size=1), min_size=1))
def test_placement_names_file_group_hashes(counts: list[int], keys: list[str]) -> None:
    shares = tuple(sum(counts[: number + 1]) for number in range(len(counts)))
    placement = SizedPlacement(tuple(f"f{number}" for number in range(len(counts))), shares)
    array = pa.array(keys)
    for file_id, drawn in zip(placement.file_ids_of(array).to_pylist(), routing_hashes(array).tolist(), strict=True):
        start, stop = placement.hashes_of(file_id)
        assert start <= drawn < stop
