"""Deletes with ordering values on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Rli

pytestmark = pytest.mark.invariant("P42")


def test_late_events_of_files_lose(rli: Rli, tmp_path: Path) -> None:
    create = ("create", "t", "--record-key", "id", "--ordering", "ts", "--tombstones", "2d", "--json")
    rli(*create)
    (tmp_path / "rows.csv").write_text("id,ts\na,5\nb,5\n")
    rli("upsert", "t", "rows.csv", "--json")
    (tmp_path / "gone.csv").write_text("id,ts,at\na,4,6\nb,6,4\n")
    done = rli("delete", "t", "--file", "gone.csv", "--json").json
    assert (done["deleted"], done["unchanged"]) == (1, 1)
    assert rli("upsert", "t", "rows.csv", "--json").json["inserted"] == 0
    done = rli("delete", "t", "--file", "gone.csv", "--ordering", "at", "--json").json
    assert (done["deleted"], done["unchanged"]) == (1, 1)
    (tmp_path / "marked.jsonl").write_text('{"id": "c", "ts": 9, "_hoodie_is_deleted": true}\n')
    assert rli("upsert", "t", "marked.jsonl", "--json").json["unchanged"] == 1
    assert "give a file" in rli("delete", "t", "a", "--ordering", "ts", status=2).err


def test_tombstones_are_shown_and_changed(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id", "--ordering", "ts", "--json")
    assert rli("tombstones", "t", "--json").json == {"tombstones": "7d"}
    assert rli("tombstones", "t", "--keep", "36h", "--json").json == {"tombstones": "36h"}
    assert "not a length of time" in rli("tombstones", "t", "--keep", "3y", status=2).err
    assert rli("tombstones", "t", "--keep", "off", "--json").json == {"tombstones": "off"}
