"""Each kind of damage to a table is found by the check that docs/operations.md names; sound tables are found sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli import Table, create_table, open_table
from tests.cli.conftest import Rli
from tests.interop.test_real_tables import INDEXABLE
from tests.support.hudi_tables import unzip_hudi_table
from tests.support.index_kinds import Kind, every_kind
from tests.support.tables import records


@pytest.fixture(params=["lmdb", "global-simple:"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """Four commits, each of three keys in each of three partitions."""
    index: dict[str, Any] = {} if request.param == "lmdb" else {"index": request.param}
    table = create_table(tmp_path / "t", record_key="id", partition_by="p", maintenance=False, **index)
    for version in range(4):
        rows = {"id": [f"k{i}" for i in range(9)], "p": [f"p{i % 3}" for i in range(9)], "s": [f"s{version}"] * 9}
        table.upsert(pa.table(rows))
    return table


def newest(table: Table, partition: str = "p0") -> Path:
    return max(Path(table.location, partition).glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])


def commits(table: Table) -> list[Path]:
    return sorted(Path(table.location, ".hoodie").glob("*.commit"))


def rewritten(table: Table, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write the newest file again, changed, by a tool that knows nothing of Hudi."""
    path = newest(table)
    pq.write_table(change(pq.read_table(path, partitioning=None)), path)


def with_first(column: str, value: str) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.set_column(
        rows.schema.get_field_index(column), column, pa.array([value, *rows[column].to_pylist()[1:]])
    )


def with_integers(rows: pa.Table) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index("s"), "s", pa.array([1] * rows.num_rows))


DOCTOR: dict[str, Callable[[Table], object]] = {
    "are missing": lambda table: newest(table).unlink(),
    "cannot be read as Parquet": lambda table: newest(table).write_bytes(b""),
    "another size": lambda table: newest(table).write_bytes(newest(table).read_bytes()[:800]),
    "another number of records": lambda table: rewritten(table, lambda rows: rows.slice(1)),
    "number of records": lambda table: rewritten(table, lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])),
    "than their commits wrote": lambda table: rewritten(table, with_first("_hoodie_record_key", "zz")),
    "another type": lambda table: rewritten(table, with_integers),
    "partition_metadata": lambda table: Path(table.location, "p0/.hoodie_partition_metadata").unlink(),
    "a completed commit cannot be read": lambda table: commits(table)[-1].write_bytes(b"{"),
    "a completed commit is empty": lambda table: commits(table)[1].write_bytes(b""),
    "the completed file of a commit is missing": lambda table: commits(table)[1].unlink(),
    "completed file of a commit is missing": lambda table: commits(table)[-1].unlink(),
    "of completed commits are missing": lambda table: Path(table.location, "p0").rename(Path(table.location, "q0")),
}

WARNINGS: dict[str, Callable[[Table], object]] = {
    "of no commit": lambda table: shutil.copy(
        newest(table), f"{str(newest(table)).rpartition('_')[0]}_20200101000000000.parquet"
    ),
    "journals of commits are missing": lambda table: shutil.rmtree(Path(table.location, ".hoodie/.rli/journal")),
}


@pytest.mark.parametrize("told", DOCTOR)
def test_doctor_finds_damage(told: str, table: Table, rli: Rli) -> None:
    DOCTOR[told](table)
    findings = rli("doctor", table.location, "--json", status=1).json["findings"]
    assert any(told in found["detail"] for found in findings if found["verdict"] == "problem"), findings


@pytest.mark.parametrize("told", WARNINGS)
def test_doctor_warns_of_leftovers(told: str, table: Table, rli: Rli) -> None:
    WARNINGS[told](table)
    findings = rli("doctor", table.location, "--json").json["findings"]
    assert any(told in found["detail"] for found in findings if found["verdict"] == "warning"), findings


def flip(table: Table) -> None:
    """Change a byte within a page of the last column."""
    path = newest(table)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(7)
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start + chunk.total_compressed_size - 2] ^= 0xFF
    path.write_bytes(content)


DEEP: dict[str, Callable[[Table], object]] = {
    "crc": flip,
    "differs from the key columns": lambda table: rewritten(table, with_first("id", "zz")),
    "_hoodie_file_name does not fit": lambda table: rewritten(table, with_first("_hoodie_file_name", "other")),
    "_hoodie_partition_path does not fit": lambda table: rewritten(table, with_first("_hoodie_partition_path", "p1")),
    "partition columns do not fit": lambda table: rewritten(table, with_first("p", "p1")),
    "_hoodie_commit_time is no time": lambda table: rewritten(table, with_first("_hoodie_commit_time", "9")),
}


@pytest.mark.parametrize("told", DEEP)
def test_a_deep_verification_finds_damage(told: str, table: Table, rli: Rli) -> None:
    DEEP[told](table)
    report = table.verify_index(deep=True)
    assert not report.agrees
    assert any(newest(table).name in damage and told in damage.lower() for damage in report.damaged), report
    assert newest(table).name in rli("index", "verify", table.location, "--deep", status=1).out.replace("\n", "")


def test_records_in_wrong_partition_are_found(table: Table) -> None:
    name = newest(table).name.partition("_")[2]
    shutil.copy(newest(table), Path(table.location, f"p1/11111111-1111-1111-1111-111111111111-0_{name}"))
    report = table.verify_index(deep=True)
    assert report.repeated or report.misplaced
    assert any("_hoodie_partition_path does not fit" in damage for damage in report.damaged)


@every_kind
@pytest.mark.parametrize("version", [6, 9])
def test_sound_tables_are_found_sound(kind: Kind, version: int, tmp_path: Path, rli: Rli) -> None:
    table = replace(kind, version=max(version, kind.version)).create(tmp_path, maintenance=False)
    for step in range(4):
        table.upsert(records(*((f"k{number}", "xyz"[number % 3], step, 1.0) for number in range(9))))
    table.delete(["k1"])
    table.rollback("last")
    if kind.can_cluster:
        table.cluster()
    assert_sound(table, rli)
    table.upsert(records(("k1", "x", 9, 9.0)))
    table.clean(keep_commits=1)
    table.archive(keep_commits=1)
    assert_sound(table, rli)


def assert_sound(table: Table, rli: Rli) -> None:
    assert table.verify_index(deep=True).damaged == ()
    findings = rli("doctor", table.location, "--json").json["findings"]
    # Without maintenance, the log files of such a table wait for a compaction.
    assert [found for found in findings if found["verdict"] != "ok" and found["check"] != "log files"] == []


@pytest.mark.parametrize("name", INDEXABLE)
def test_tables_of_hudi_are_found_sound(name: str, tmp_path: Path, rli: Rli) -> None:
    path = unzip_hudi_table(name, tmp_path / "hudi")
    table = open_table(path)
    try:
        table.bootstrap_index(f"lmdb://{tmp_path}/index")
    except Exception as refused:  # noqa: BLE001  (some hold nothing that an index could be built of)
        pytest.skip(str(refused))
    report = table.verify_index(deep=True)
    assert report.damaged == ()
    findings = rli("doctor", str(path), "--json").json["findings"]
    assert [found for found in findings if found["verdict"] == "problem"] == []


def test_files_beside_writers_are_found_sound(table: Table, rli: Rli) -> None:
    ended = Event()

    def write() -> None:
        other, version = open_table(table.location), 0
        while not ended.is_set():
            version += 1
            other.upsert(pa.table({"id": [f"k{version % 9}"], "p": [f"p{version % 3}"], "s": [str(version)]}))
            if version % 3 == 0:
                other.clean(keep_commits=1)
            if version % 5 == 0:
                other.archive(keep_commits=2)

    writer = Thread(target=write)
    writer.start()
    try:
        for _ in range(4):
            assert table.verify_index(deep=True).damaged == ()
            findings = rli("doctor", table.location, "--json", status=None).json["findings"]
            # That the index has not applied a commit yet is true for a moment.
            assert [found for found in findings if found["verdict"] == "problem" and found["check"] != "sync"] == []
    finally:
        ended.set()
        writer.join()
