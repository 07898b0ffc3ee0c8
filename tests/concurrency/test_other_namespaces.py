"""Processes that see each other's table, but not each other: in containers, which have process numbers and mounts of their own.

Whether a holder of the lease lives is told by its signs of life alone, and the lease is the same by whatever path it is reached.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from rli import LeaseBusyError, LeasePlace, Step, Table, create_table
from tests.support.steps import Once
from tests.support.tables import check_stored, records, rows_of

pytestmark = [pytest.mark.crash, pytest.mark.slow]

_LEASE_SECONDS: Final = 3.0

HOLDER: Final = """
import sys, rli
from rli import Step
from tests.support.tables import records

def wait(step):
    if step is Step.LEASED:
        print("leased", flush=True)
        sys.stdin.readline()

print(rli.open_table(sys.argv[1], index=sys.argv[2]).upsert(records(("theirs", "x", 1, 1.0)), on_step=wait).inserted)
"""

ASKER: Final = """
import sys, rli
from tests.support.tables import records

table = rli.open_table(sys.argv[1], index=sys.argv[2])
try:
    table.clean(timeout=0.2)
except rli.LeaseBusyError:
    print("busy", flush=True)
sys.stdin.readline()
print(table.upsert(records(("theirs", "x", 1, 1.0))).inserted)
"""


@contextmanager
def running(program: str, table: Table, *wrapper: str, location: str = "") -> Iterator[subprocess.Popen[str]]:
    """A program with a table, in name spaces of its own."""
    command = ["unshare", *wrapper, sys.executable, "-c", program, location or table.location, table.index.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
            # Its child dies with it, and only then may its input end.
            process.wait()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture(params=list(LeasePlace))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path}/i",
        lease=request.param,
        lease_seconds=_LEASE_SECONDS,
    )


@pytest.mark.invariant("P10")
def test_a_hidden_holder_keeps_its_lease(table: Table) -> None:
    """Its process number is here nobody's, or another process's."""
    proc = ["--mount-proc"] if table.settings.lease is LeasePlace.TABLE else []
    with running(HOLDER, table, "--pid", "--fork", "--kill-child", *proc) as holder:
        assert line_of(holder) == "leased"
        with pytest.raises(LeaseBusyError):
            table.clean(timeout=_LEASE_SECONDS + 1)
        go_on(holder)
        assert line_of(holder) == "1"
    assert [row["id"] for row in rows_of(table)] == ["theirs"]
    check_stored(table)


@pytest.mark.invariant("P3", "P10")
def test_a_hidden_death_shows_in_time(table: Table) -> None:
    with running(HOLDER, table, "--pid", "--fork", "--kill-child", "--mount-proc") as holder:
        assert line_of(holder) == "leased"
    table.upsert(records(("ours", "x", 1, 1.0)))
    assert [row["id"] for row in rows_of(table)] == ["ours"]
    check_stored(table)


@pytest.mark.invariant("P3", "P27")
def test_another_mount_has_the_same_lease(table: Table, tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    wrapper = ["--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', table.location, str(mount)]
    with running(ASKER, table, *wrapper, location=str(mount)) as asker:

        def ask() -> None:
            assert line_of(asker) == "busy"

        table.upsert(records(("ours", "x", 1, 1.0)), on_step=Once(Step.LEASED, ask))
        go_on(asker)
        assert line_of(asker) == "1"
    assert [row["id"] for row in rows_of(table)] == ["ours", "theirs"]
    check_stored(table)
