"""Each example does what it says, as printed, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent

UPSERTED = "{'id': ['a', 'b', 'c', 'd'], 'city': ['Rome', 'Bern', 'Rome', 'Rome'], 'fare': [9.5, 8.0, 4.0, 7.5]}"
SHOWN = {
    "delta_with_index.py": [UPSERTED, "index: 2 table: 3", "[None, 'Bern']"],
    "iceberg_with_index.py": [UPSERTED, "in step: False", "[None, 'Bern']"],
    "deduplicate_events.py": [
        "offset 1: 2 new, 0 known, 0 files rewritten",
        "offset 2: 1 new, 1 known, 0 files rewritten",
        # A repeat returns the first result.
        "offset 2: 1 new, 1 known, 0 files rewritten",
        (
            "[{'event_id': 'e1', 'day': '2026-01-01', 'amount': 5}, {'event_id': 'e2', 'day': '2026-01-01', 'amount': 7}, "
            "{'event_id': 'e3', 'day': '2026-01-02', 'amount': 9}]"
        ),
    ],
    "debezium_changes.py": [
        "offset 1: done.inserted=2 done.updated=0 done.moved=0 done.deleted=0 done.unchanged=0",
        "offset 2: done.inserted=0 done.updated=0 done.moved=1 done.deleted=1 done.unchanged=1",
        # A repeat returns the first result.
        "offset 2: done.inserted=0 done.updated=0 done.moved=1 done.deleted=1 done.unchanged=1",
        "[{'id': 1, 'city': 'Bern', 'fare': 10.5}]",
        "fares: {1: 10.5}",
    ],
    "deletion_receipt.py": [
        "deleted: ('ann',) readable: False",
        "old versions in the receipt: 2 files that hold the key: 4",
        "gone, by the receipt: True files that hold the key: []",
    ],
    "daily_reload.py": [
        "run 1: done.inserted=2 done.updated=0 done.deleted=0 done.repeated=False",
        "run 2: done.inserted=1 done.updated=0 done.deleted=0 done.repeated=False",
        "run 3: done.inserted=1 done.updated=1 done.deleted=1 done.repeated=False",
        # A repeat returns the first result.
        "run 3: done.inserted=1 done.updated=1 done.deleted=1 done.repeated=True",
        (
            "[{'id': 'a', 'day': '2026-11-24', 'amount': 5.5}, {'id': 'c', 'day': '2026-11-25', 'amount': 3.0}, "
            "{'id': 'late', 'day': '2026-11-24', 'amount': 2.0}]"
        ),
    ],
    "account_service.py": [
        "accounts: 250 fewer commits than events: True",
        "[{'id': 'u7', 'email': 'seven@example.org'}, {'id': 'u8', 'email': 'user8@example.org'}]",
        "[{'id': 'u7', 'email': 'seven@example.org'}] []",
    ],
    "stream_upserts.py": ["[{'id': 'b', 'city': 'Bern', 'fare': 8.0}, {'id': 'c', 'city': 'Rome', 'fare': 7.5}]"],
}
IN_SPARK = {"stream_upserts.py"}


def run(folder: Path, *arguments: str, warnings: str = "error") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", warnings, *arguments]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def example(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.spark, pytest.mark.one_spark] if name in IN_SPARK else [])


@pytest.mark.parametrize("name", [example(name) for name in SHOWN])
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    # PySpark itself warns.
    done = run(tmp_path, str(EXAMPLES / name), warnings="default" if name in IN_SPARK else "error")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SHOWN[name]


DIE = """
import os, sys
sys.path.insert(0, {examples!r})
import pyarrow as pa, rli
import {module} as example
example.main()
{setting}
{step} = lambda *_, **__: os._exit(9)
example.upsert({first}pa.table({{"id": ["new"], "city": ["Rome"], "fare": [1.0]}}))
"""
# It ends without the interpreter's own end: threads of the libraries' readers may abort the process there.
HEAL = """
import os, sys
sys.path.insert(0, {examples!r})
import pyarrow as pa, rli
import {module} as example
{setting}
example.upsert({first}pa.table({{"id": ["new"], "city": ["Bern"], "fare": [2.0]}}))
with rli.open_index(example.INDEX) as index:
    assert index.pending() == []
    print(index.lookup(["new"])["partition_path"].to_pylist(), {rows}, flush=True)
os._exit(0)
"""
DELTA = {
    "module": "delta_with_index",
    "first": "",
    "setting": "from deltalake import DeltaTable",
    "rows": "DeltaTable(example.TABLE).to_pyarrow_table(filters=[('id', '=', 'new')]).to_pydict()",
}
ICEBERG = {
    "module": "iceberg_with_index",
    "first": "table, ",
    "setting": """
from pathlib import Path
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Transaction
warehouse = Path("trips_iceberg").absolute()
catalog = SqlCatalog("demo", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
table = catalog.load_table("demo.trips")
""",
    "rows": "table.refresh().scan(row_filter=\"id = 'new'\").to_arrow().to_pydict()",
}


@pytest.mark.crash
@pytest.mark.parametrize(
    ("words", "step"),
    [
        pytest.param(DELTA, "rli.IndexTransaction.commit", id="Delta, after its commit"),
        pytest.param(DELTA, "DeltaTable.merge", id="Delta, before its commit"),
        pytest.param(ICEBERG, "rli.IndexTransaction.commit", id="Iceberg, after its commit"),
    ],
)
def test_writer_dead_between_commits_is_healed(words: dict[str, str], step: str, tmp_path: Path) -> None:
    died = run(tmp_path, "-c", DIE.format(examples=str(EXAMPLES), step=step, **words))
    assert died.returncode == 9, died.stderr
    healed = run(tmp_path, "-c", HEAL.format(examples=str(EXAMPLES), **words))
    assert healed.returncode == 0, healed.stderr
    assert healed.stdout == "['Bern'] {'id': ['new'], 'city': ['Bern'], 'fare': [2.0]}\n"
