"""The statistics are those of the table, the files and the batch that were made."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli import Table, TableType, create_table
from rli.advice.sources import ParquetSource, TableSource
from rli.advice.statistics import Survey, commit_statistics, survey
from rli.errors import InvalidInputError, SettingsError
from rli.table.table import opened_table
from rli.view.snapshot import Snapshot

EACH = 100


def records(numbers: range, *, part: str | None = None, ts: int = 0) -> pa.Table:
    """Records whose keys rise with their partitions: a hundred in each."""
    return pa.table(
        {
            "id": [f"{number:06}" for number in numbers],
            "part": [part or f"p{number // EACH}" for number in numbers],
            "ts": [ts] * len(numbers),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Five partitions of a hundred keys, a file each."""
    table = create_table(tmp_path / "t", record_key="id", partition_by="part", ordering="ts", index="simple:")
    table.upsert(records(range(5 * EACH)))
    return table


def surveyed(table: Table, batch: pa.Table | None = None) -> Survey:
    snapshot = Snapshot.now(opened_table(table).definition)
    return survey(
        TableSource(snapshot), batch, commit_statistics(snapshot), table_type=TableType.COPY_ON_WRITE, index="simple:"
    )


def test_keys_and_files_of_a_table(table: Table) -> None:
    found = surveyed(table).table
    info = table.info()
    assert (found.keys, found.files, found.partitions, found.bytes) == (500, 5, 5, info.bytes)
    assert (found.key_bytes, found.encoded_key_bytes) == (6, 7)
    assert (found.files_per_key, found.files_per_key_in_partition) == (1, 1)
    assert found.repeated == 0
    assert found.partition_by == ("part",)
    assert found.open_seconds > 0


def test_ranges_that_overlap(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="part", index="simple:")
    numbers = range(400)
    table.upsert(pa.table({"id": [f"{n:06}" for n in numbers], "part": [f"p{n % 4}" for n in numbers]}))
    found = surveyed(table).table
    # All but the first and the last few keys lie in the ranges of all four files.
    assert found.files_per_key == pytest.approx(4, abs=0.05)
    assert found.files_per_key_in_partition == 1


def test_a_batch_that_is_given(table: Table) -> None:
    # Fifty known keys of p0, ten of p1 that say they are of p9, and forty new ones of p9.
    batch = pa.concat_tables(
        [records(range(50)), records(range(100, 110), part="p9"), records(range(900, 940), part="p9")]
    )
    found = surveyed(table, batch).batch
    assert (found.origin, found.keys, found.partitions) == ("records", 100, 2)
    assert [found.known, found.moved] == pytest.approx([0.6, 0.1])
    assert (found.hit.files, found.hit.rows) == (2, 200)
    assert (found.near.files, found.near.rows) == (1, 100)
    assert (found.tests, found.tests_near) == (60, 50)
    assert (found.tested.files, found.tested_near.files) == (2, 1)


def test_repeated_batch_records_count_once(table: Table) -> None:
    found = surveyed(table, pa.concat_tables([records(range(50)), records(range(50), ts=1)])).batch
    assert (found.keys, found.known) == (50, 1)


def test_an_empty_batch(table: Table) -> None:
    found = surveyed(table, records(range(0))).batch
    assert (found.keys, found.known, found.hit.files, found.tests) == (0, 0, 0, 0)


def test_a_table_without_records(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="part", index="simple:")
    found = surveyed(table)
    assert (found.table.keys, found.table.files, found.batch.origin) == (0, 0, "assumed")
    assert found.batch.known == 0
    assert surveyed(table, records(range(10))).batch.keys == 10


def test_recent_commits_predict_next(tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="part", ordering="ts", index=f"lmdb://{tmp_path}/i"
    )
    table.upsert(records(range(5 * EACH)))
    for ts in (1, 2):
        # Six updates in p0, three moves from p1 to p2, one new key in p2.
        changes = [records(range(6), ts=ts), records(range(100, 103), part=f"p{ts + 1}", ts=ts)]
        table.upsert(pa.concat_tables([*changes, records(range(700 + ts, 701 + ts), part="p2", ts=ts)]))
    found = surveyed(table)
    commits = found.table.commits
    assert commits is not None
    # The load is left out.
    assert (commits.commits, commits.rows) == (2, 10)
    shares = [commits.inserted, commits.updated, commits.moved, commits.deleted, commits.unchanged]
    assert shares == [0.1, 0.6, 0.3, 0, 0]
    assert [commits.machines, len(commits.writers)] == [1, 1]
    assert (found.batch.origin, found.batch.keys, found.batch.known) == ("commits", 10, 0.9)
    assert found.batch.moved == 0.3


def test_keys_in_several_partitions(table: Table) -> None:
    assert surveyed(table).table.repeated == 0
    table.upsert(records(range(100), part="p4", ts=1))
    assert surveyed(table).table.repeated == pytest.approx(0.2, abs=0.01)


def test_files_that_are_no_table(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(records(range(number * 200, (number + 1) * 200)), tmp_path / f"{number}.parquet")
    paths = [str(tmp_path / f"{number}.parquet") for number in range(3)]
    source = ParquetSource("files", paths, ["id"], ["part"])
    batch = pa.concat_tables([records(range(150, 250)), records(range(1_000, 1_100))])
    found = survey(source, batch, None, table_type=None, index=None)
    assert (found.table.keys, found.table.partitions, found.table.files) == (600, 6, 6)
    assert (found.table.files_per_key, found.table.repeated) == (1, 0)
    assert (found.batch.known, found.batch.moved, found.batch.hit.files) == (0.5, 0, 2)


def test_files_without_partitions(tmp_path: Path) -> None:
    pq.write_table(records(range(100)), tmp_path / "a.parquet")
    source = ParquetSource("files", [str(tmp_path / "a.parquet")], ["id"], [])
    found = survey(source, None, None, table_type=None, index=None)
    assert (found.table.keys, found.table.partitions, found.batch.origin) == (100, 1, "assumed")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("nothing")
    with pytest.raises(InvalidInputError, match=r"a\.parquet"):
        ParquetSource("files", [str(tmp_path / "a.parquet")], ["id"], [])
    pq.write_table(records(range(1)), tmp_path / "b.parquet")
    with pytest.raises(SettingsError, match="record_key"):
        ParquetSource("files", [str(tmp_path / "b.parquet")], [], [])
    with pytest.raises(InvalidInputError, match="nowhere"):
        list(ParquetSource("files", [str(tmp_path / "b.parquet")], ["nowhere"], []).read(0))
