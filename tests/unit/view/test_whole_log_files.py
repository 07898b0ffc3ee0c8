"""A commit is whole where its log files have their last block."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rli import create_table
from rli.table.table import opened_table
from rli.view.snapshot import Snapshot
from rli.view.whole_commits import broken_part
from tests.support.log_files import append_log
from tests.support.tables import records

BODY = bytes(range(40))
BLOCK = b"#HUDI#" + struct.pack(">q", len(BODY) + 8) + BODY + struct.pack(">q", len(BODY) + 14)


def broken_in(folder: Path, content: bytes, size: int) -> str | None:
    """What is broken of a commit that appended a log file of some size, where the file has this content."""
    table = create_table(folder / "t", record_key="id", partition_by="city", index=f"memory:{folder.name}")
    table.upsert(records(("a", "x", 1, 1.0)))
    stat = append_log(table, "x", size)
    Path(table.location, stat.path).write_bytes(content)
    now = Snapshot.now(opened_table(table).definition)
    found = broken_part(now, now.timeline.completed_writes[-1])
    assert found in {None, stat.path}
    return found


@pytest.mark.parametrize("content", [BLOCK, BLOCK + BLOCK])
def test_whole_blocks(tmp_path: Path, content: bytes) -> None:
    assert broken_in(tmp_path, content, len(content)) is None


@pytest.mark.parametrize(
    "content", [b"", BLOCK[:-1], BLOCK[:-8] + bytes(8), bytes(len(BLOCK)), BLOCK + bytes(len(BLOCK)), b"PAR1"]
)
def test_torn_blocks(tmp_path: Path, content: bytes) -> None:
    assert broken_in(tmp_path, content, len(content)) is not None


def test_another_size_is_torn(tmp_path: Path) -> None:
    assert broken_in(tmp_path, BLOCK, len(BLOCK) + 1) is not None
