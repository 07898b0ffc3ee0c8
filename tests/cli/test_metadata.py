"""rli metadata."""

from __future__ import annotations

from pathlib import Path

from rli import open_table
from tests.cli.conftest import Rli
from tests.support.tables import turn_into_version_9


def test_partitions_come_and_go(rli: Rli, trips: str) -> None:
    done = rli("metadata", "enable", trips, "--partitions", "files, column_stats", "--columns", "fare", "--json").json
    assert done["added"] == done["listed"][::-1] == ["files", "column_stats"]
    assert "nothing to do" in rli("metadata", "enable", trips, "--partitions", "files").out
    status = rli("metadata", "status", trips, "--json").json
    assert {part["partition"]: part["state"] for part in status["partitions"]} == dict.fromkeys(
        ("files", "column_stats"), "listed"
    )
    assert "file groups" in rli("metadata", "status", trips).out
    assert rli("metadata", "disable", trips, "--dry-run", "--json").json["listed"] == []
    assert rli("metadata", "verify", trips, "--json").json == []
    assert "removed" in rli("metadata", "disable", trips).out
    assert "none" in rli("metadata", "status", trips).out


def test_new_table_has_named_partitions(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id", "--metadata", "files,bloom_filters")
    status = rli("metadata", "status", "t", "--json").json
    assert [part["partition"] for part in status["partitions"]] == ["bloom_filters", "files"]


def test_verification_names_what_differs(rli: Rli, trips: str, tmp_path: Path) -> None:
    rli("metadata", "enable", trips, "--partitions", "record_index")
    assert "agree" in rli("metadata", "verify", trips).out
    file = max(tmp_path.glob("trips/Bergen/*.parquet"), key=lambda path: path.name)
    file.rename(file.with_name(f"00000000-0000-0000-0000-000000000000-0{file.name[38:]}"))
    found = rli("metadata", "verify", trips, "--json", status=1).json
    assert {each["partition"] for each in found} == {"files", "record_index"}
    assert file.name in rli("metadata", "verify", trips, status=1).out


def test_removal_tells_what_went_too(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id")
    turn_into_version_9(open_table("t"))
    rli("metadata", "enable", "t", "--partitions", "column_stats,partition_stats")
    removal = ("metadata", "disable", "t", "--partitions", "column_stats")
    assert "would go, too, since they need what was named: partition_stats" in rli(*removal, "--dry-run").err
    assert "--partitions column_stats,partition_stats" in rli(*removal).err
