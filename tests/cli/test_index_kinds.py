"""The commands on a table whose index has no store."""

from __future__ import annotations

from pathlib import Path

import rli
from tests.cli.conftest import Rli
from tests.support.tables import records


def test_commands_work_without_store(rli: Rli, tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    rli("create", table, "--record-key", "id", "--partition-by", "city", "--index", "simple:")
    _fill(table)
    assert "nothing to build" in rli("index", "bootstrap", table).err
    assert "nothing to repair" in rli("index", "repair", table).err
    shown = rli("index", "stats", table).out
    assert "simple:" in shown
    assert "partition" in shown
    rli("index", "verify", table)
    rli("index", "sync", table)
    assert "nobody" in rli("lease", "show", table).out
    rli("doctor", table)
    assert "simple:" in rli("info", table).out
    assert (
        "keeps no entries"
        in rli("create", "u", "--record-key", "id", "--index", "simple:", "--shards", "3", status=2).err
    )


def _fill(table: str) -> None:
    with rli.open_table(table) as opened:
        opened.upsert(records(("a", "x", 1, 1.0), ("a", "y", 1, 1.0)))
