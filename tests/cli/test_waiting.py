"""A command that waits says for what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rli import create_table
from rli.coordination.lease import LEASE, HeldLease
from rli.coordination.shared_records import shared_records
from rli.table.table import opened_table


def test_waiting_command_names_lease_holder(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "a"}\n')
    with create_table(tmp_path / "t", record_key="id") as table:
        holder = HeldLease(
            shared_records(opened_table(table).definition, opened_table(table).index), LEASE, "a long service"
        )
        assert holder.take(over=None)
        command = [sys.executable, "-m", "rli", "upsert", str(tmp_path / "t"), str(rows)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            line = next(line for line in running.stderr if "waiting for" in line)
            assert holder.release()
            assert running.wait() == 0
    assert "waiting for the lease: holder=a long service" in line
    assert "on this host" in line


@pytest.mark.parametrize("command", ["timeline", "read"])
def test_command_without_wait_is_silent(tmp_path: Path, command: str) -> None:
    create_table(tmp_path / "t", record_key="id").close()
    done = subprocess.run(
        [sys.executable, "-m", "rli", command, str(tmp_path / "t")], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_log_level_follows_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "a"}\n')
    create_table(tmp_path / "t", record_key="id").close()
    command = [sys.executable, "-m", "rli", "upsert", str(tmp_path / "t"), str(rows)]
    monkeypatch.setenv("RLI_LOG", "info")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "info: a write was committed: table=" in done.stderr
    monkeypatch.setenv("RLI_LOG", "loud")
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "RLI_LOG=LOUD; choose one of DEBUG" in refused.stderr
