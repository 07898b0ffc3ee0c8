from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import rli as library
from rli.cli.app import app
from rli.coordination.lease import TableLease
from tests.support.indexes import record_index

COMMANDS = [
    ["demo"],
    ["create"],
    ["upsert"],
    ["delete"],
    ["lookup"],
    ["read"],
    ["timeline"],
    ["info"],
    ["drop"],
    ["cluster"],
    ["maintenance"],
    ["relocate"],
    ["bench"],
    ["lease", "show"],
    ["lease", "break"],
    ["rollback"],
    ["savepoint"],
    ["restore"],
    ["clean"],
    ["archive"],
    ["doctor"],
    ["capacity"],
    *(["index", name] for name in ("bootstrap", "verify", "repair", "stats", "sync", "drop")),
]
_DEADLINE_SECONDS = 120.0


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rli", *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=240
    )


def test_version_of_the_module(tmp_path: Path) -> None:
    outcome = run("--version", cwd=tmp_path)
    assert (outcome.returncode, outcome.stdout) == (0, f"rli {version('record-level-index')}\n")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_explains_and_shows_examples(command: list[str]) -> None:
    text = CliRunner().invoke(app, [*command, "--help"], prog_name="rli", env={"COLUMNS": "200"}).stdout
    assert "Examples" in text
    assert f"rli {' '.join(command)}" in text.partition("Examples")[2]


def test_an_interrupted_upsert_leaves_nothing(tmp_path: Path) -> None:
    table = library.create_table(tmp_path / "t", record_key="id", partition_by="p")
    count = 4000
    numbers = pa.array(range(count))
    pq.write_table(
        pa.table({"id": numbers.cast(pa.string()), "p": pa.array([f"p{i % 40}" for i in range(count)]), "v": numbers}),
        tmp_path / "big.parquet",
    )
    with (
        TableLease(record_index(table).store).hold("another writer"),  # without the lease, the upsert cannot commit
        subprocess.Popen(
            [sys.executable, "-m", "rli", "upsert", "t", "big.parquet"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            _wait_for_a_base_file(tmp_path / "t")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=_DEADLINE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "interrupted: big.parquet: nothing was written"
    assert "Traceback" not in err
    assert table.timeline() == ()
    assert not list((tmp_path / "t").rglob("*.parquet"))
    assert table.upsert(pa.table({"id": ["a"], "p": ["x"], "v": [1]})).inserted == 1
    assert table.verify_index().agrees


def _wait_for_a_base_file(table: Path) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if any(name.endswith(".parquet") for _, _, names in os.walk(table) for name in names):
            return
        time.sleep(0.005)
    raise AssertionError("the upsert wrote no base file")
