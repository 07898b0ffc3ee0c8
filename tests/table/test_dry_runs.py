"""A dry run tells what the write does then, and changes no file of the table and no entry of its index."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread

import pyarrow as pa
import pytest

from rli import (
    CommitResult,
    RecordExistsError,
    SchemaError,
    Step,
    Table,
    TransactionMismatchError,
    UnsupportedTableError,
    create_table,
    open_table,
)
from tests.support.soak import cases, in_ci

KINDS = [
    "lmdb",
    "simple:",
    "global-simple:",
    "bloom:",
    "global-bloom:",
    "bucket:?buckets=4",
    "consistent-bucket:?buckets=4",
]
FEW = ["lmdb", "simple:", "global-bloom:", "bucket:?buckets=4"]
OF_READERS = "lock.mdb"
"""Counts the readers of an index, also those of look-ups."""

Call = Callable[..., CommitResult]


@pytest.fixture(params=in_ci(FEW, of=KINDS))
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    url = f"lmdb://{tmp_path}/index" if request.param == "lmdb" else request.param
    with create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=url, maintenance=False
    ) as made:
        yield made


def content(folder: Path) -> dict[str, str]:
    """Path of each file and folder → hash of its content."""
    found = {}
    for above, folders, files in os.walk(folder):
        found.update({os.path.join(above, name): "" for name in folders})
        for name in files:
            path = Path(above, name)
            if name != OF_READERS:
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def batch(random: Random, rows: int, ts: int) -> pa.Table:
    records = [
        {"id": f"k{random.randrange(90)}", "city": random.choice("xyz"), "ts": ts + random.randrange(3)}
        for _ in range(rows)
    ]
    return pa.Table.from_pylist(records)


def counts(result: CommitResult) -> tuple[int, ...]:
    return (
        result.inserted, result.updated, result.moved, result.deleted, result.unchanged, result.duplicates,
        result.files_created, result.files_rewritten,
    )  # fmt: skip


def calls(table: Table, random: Random) -> Iterator[Call]:
    for ts in range(min(3, cases(2))):
        records, others = batch(random, 40, ts), batch(random, 40, ts)
        gone = [f"k{random.randrange(100)}" for _ in range(9)]
        yield lambda records=records, **options: table.upsert(records, **options)
        yield lambda others=others, **options: table.insert(others, **options)
        yield lambda gone=gone, **options: table.delete(gone, **options)
        yield lambda gone=gone, ts=ts, **options: table.delete(gone, ordering=[ts] * 9, **options)
        yield lambda records=records, **options: table.upsert(records, **options)
        marked = others.append_column("_hoodie_is_deleted", pa.array([row % 2 == 0 for row in range(40)]))
        yield lambda marked=marked, **options: table.upsert(marked, **options)


def test_a_dry_run_foretells_the_write(table: Table, tmp_path: Path) -> None:
    for call in calls(table, Random(7)):
        before = content(tmp_path)
        foretold = call(dry_run=True)
        assert content(tmp_path) == before
        assert foretold.dry_run
        assert foretold.instant is None
        assert len(foretold.files_to_rewrite) == foretold.files_rewritten
        assert all((tmp_path / "t" / path).is_file() for path in foretold.files_to_rewrite)
        done = call()
        assert counts(foretold) == counts(done)
        assert not done.dry_run


def test_dry_run_refuses_like_write(table: Table) -> None:
    table.upsert(pa.table({"id": ["a"], "city": ["x"], "ts": [1]}), transaction=("job", 3))
    with pytest.raises(SchemaError):
        table.upsert(pa.table({"id": ["a"], "city": ["x"], "ts": ["one"]}), dry_run=True)
    with pytest.raises(RecordExistsError):
        table.insert(pa.table({"id": ["a"], "city": ["x"], "ts": [1]}), on_existing="fail", dry_run=True)
    with pytest.raises(TransactionMismatchError):
        table.delete(["a"], transaction=("job", 2), dry_run=True)
    assert table.read().num_rows == 1


@pytest.mark.parametrize("call", [Table.clean, Table.archive])
def test_service_dry_runs_refuse_alike(tmp_path: Path, call: Callable[..., object]) -> None:
    create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts").close()
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if ".keygenerator." not in line]
    properties.write_text("\n".join([*lines, "hoodie.table.keygenerator.class=com.example.Own", ""]))
    with open_table(tmp_path / "t") as table:
        for dry_run in (False, True):
            with pytest.raises(UnsupportedTableError, match=r"com\.example\.Own"):
                call(table, dry_run=dry_run)


def test_a_dry_run_knows_repeats(table: Table) -> None:
    first = pa.table({"id": ["a"], "city": ["x"], "ts": [1]})
    table.upsert(first, transaction=("job", 1))
    told = table.upsert(first, transaction=("job", 1), dry_run=True)
    assert told.repeated
    assert told.dry_run


def test_dry_runs_beside_a_writer(table: Table) -> None:
    rows = pa.table({"id": [f"k{row}" for row in range(20)], "city": ["x", "y"] * 10, "ts": [1] * 20})
    table.upsert(rows)
    ended, failures = Event(), list[BaseException]()

    def write() -> None:
        try:
            with open_table(table.location) as other:
                for ts in range(2, 12):
                    changed = rows.set_column(2, "ts", pa.array([ts] * 20))
                    other.upsert(changed)
                    other.clean(keep_commits=1)
        except BaseException as error:  # noqa: BLE001  (the main thread reports it)
            failures.append(error)
        finally:
            ended.set()

    writer = Thread(target=write)
    writer.start()
    late = rows.set_column(2, "ts", pa.array([0] * 20))
    while not ended.is_set():
        told = table.upsert(late, dry_run=True)
        assert (told.unchanged, told.files) == (20, 0)
    writer.join()
    assert not failures


def test_dry_run_waits_for_no_lease(table: Table, tmp_path: Path) -> None:
    table.upsert(pa.table({"id": ["a"], "city": ["x"], "ts": [1]}))

    def foretell(step: Step) -> None:
        if step not in {Step.LEASED, Step.PROMOTED}:
            return
        with open_table(tmp_path / "t") as other:
            told.append(other.delete(["a"], dry_run=True))

    told: list[CommitResult] = []
    table.upsert(pa.table({"id": ["b"], "city": ["x"], "ts": [1]}), on_step=foretell)
    assert [result.deleted for result in told] == [1, 1]
