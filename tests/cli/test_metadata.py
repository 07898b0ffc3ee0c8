"""rli metadata."""

from __future__ import annotations

from pathlib import Path

from rli import open_table
from rli.filters.filter import Filter
from tests.cli.conftest import Rli
from tests.support.hudi_tables import unzip_hudi_table
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
    assert "no metadata table" in rli("metadata", "verify", trips).out


def test_former_index_partition_is_named(rli: Rli, trips: str) -> None:
    rli("index", "migrate", trips, "--to", "record-index:")
    told = rli("index", "migrate", trips, "--to", "global-simple:").out
    assert f"to drop the former index: rli metadata disable {trips} --partitions record_index" in told
    rli("metadata", "disable", trips, "--partitions", "record_index")


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


def test_statistics_of_other_columns_are_refused(rli: Rli, trips: str) -> None:
    rli("metadata", "enable", trips, "--columns", "fare")
    assert "nothing to do" in rli("metadata", "enable", trips, "--columns", "fare").out
    refused = rli("metadata", "enable", trips, "--columns", "fare,city", status=2).err
    assert "column=city" in refused
    assert f"rli metadata disable {trips} --partitions column_stats" in refused


def test_wide_statistics_are_no_difference(rli: Rli, tmp_path: Path) -> None:
    """Hudi's clustering has counted the files in that it replaced."""
    table = str(unzip_hudi_table("sample_table/cow/v9_txns_simple_meta", tmp_path))
    told = rli("metadata", "verify", table, "--json").json
    assert {(each["partition"], each["fault"]) for each in told} == {("partition_stats", "wide")}
    shown = rli("metadata", "verify", table)
    assert "values=4 nulls=0; metadata table:" in shown.out
    assert "readers lose nothing" in shown.err
    rows = open_table(table).read()
    for filters in ("currency is null", "is_international", "txn_id = 'TXN-016'", "amount > 100"):
        passes = Filter.of(filters, rows.schema)
        assert passes is not None
        assert open_table(table).read(filters=filters).num_rows == rows.filter(passes.mask(rows)).num_rows


def test_printed_commands_build_them_again(rli: Rli, trips: str, tmp_path: Path) -> None:
    names = "bloom_filters,column_stats,files,record_index"
    rli("metadata", "enable", trips, "--partitions", names)
    for file in tmp_path.glob("trips/.hoodie/metadata/files/*.hfile"):
        file.unlink()
    again = f"rli metadata disable {trips}, then rli metadata enable {trips} --partitions {names}"
    assert again in rli("doctor", trips, status=1).out
    assert f"rli metadata enable {trips} --partitions {names}" in rli("metadata", "disable", trips).err
    rli("metadata", "enable", trips, "--partitions", names)
    assert "agree" in rli("metadata", "verify", trips).out
    rli("doctor", trips)


def test_removal_tells_columns_of_statistics(rli: Rli, trips: str) -> None:
    rli("metadata", "enable", trips, "--columns", "city,fare")
    command = f"rli metadata enable {trips} --partitions column_stats,files --columns city,fare"
    assert command in rli("metadata", "disable", trips, "--dry-run").err
    assert rli("metadata", "disable", trips, "--json").json["columns"] == ["city", "fare"]
    rli(*command.split()[1:])
    assert rli("metadata", "disable", trips, "--json").json["columns"] == ["city", "fare"]
    rli("metadata", "enable", trips)
    assert rli("metadata", "disable", trips, "--json").json["columns"] == []


def test_removal_tells_what_went_too(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id")
    turn_into_version_9(open_table("t"))
    rli("metadata", "enable", "t", "--partitions", "column_stats,partition_stats")
    removal = ("metadata", "disable", "t", "--partitions", "column_stats")
    assert "would go, too, since they need what was named: partition_stats" in rli(*removal, "--dry-run").err
    assert "--partitions column_stats,partition_stats" in rli(*removal).err
