"""Messages that send a new user the right way: to options that there are, and to steps that work."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli.hudi.properties import PROPERTIES_PATH
from tests.cli.conftest import Rli


def test_a_missing_table_needs_no_confirmation(rli: Rli) -> None:
    refused = rli("drop", "nosuch", status=2).err
    assert "Remove the table" not in refused
    assert "nosuch" in refused


@pytest.mark.parametrize(("text", "records"), [("500M", 500_000_000), ("250k", 250_000), ("1.5G", 1_500_000_000)])
def test_numbers_of_records_take_units(rli: Rli, text: str, records: int) -> None:
    assert rli("capacity", "--records", text, "--store", "lmdb", "--json").json["records"] == records


def test_a_wrong_unit_is_refused(rli: Rli) -> None:
    assert "write it as 250000, 500M or 1e9" in rli("capacity", "--records", "5X", "--store", "lmdb", status=2).err


def test_differing_arguments_are_plain_words(rli: Rli, trips: str) -> None:
    refused = rli("create", trips, "--record-key", "id,city", "--if-exists", "open", status=2).err
    assert "record_key=id (given id,city) partition_by=city (given none) ordering=ts (given none)" in refused
    assert "(given (" not in refused
    assert "rli.open_table" not in refused


def test_unknown_columns_show_the_tables_own(rli: Rli, trips: str) -> None:
    for arguments in (["--columns", "nope"], ["--where", "nope = 1"]):
        refused = rli("read", trips, *arguments, status=2).err
        assert "found=['id', 'city', 'ts', 'fare']" in refused


def test_meta_columns_can_be_named(rli: Rli, trips: str) -> None:
    read = rli("read", trips, "--columns", "_hoodie_record_key", "--where", "_hoodie_record_key = 'k2'", "--json").json
    assert read == [{"_hoodie_record_key": "k2"}]


def test_a_partition_value_names_the_option(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("id,city,ts,fare\nk9,a:b,1,1\n")
    refused = rli("upsert", trips, "odd.csv", status=2).err
    assert "create the table with --url-encode-partitions" in refused
    assert "True" not in refused


def test_a_needed_index_names_the_option(rli: Rli) -> None:
    refused = rli("create", "shared", "--record-key", "id", "--lease", "table", status=2).err
    assert "give --index URL on a disk of this host" in refused


def test_duplicates_name_the_option(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text("id,city,ts,fare\nk9,Oslo,1,1\nk9,Oslo,1,1\n")
    refused = rli("upsert", trips, "twice.csv", "--on-duplicates", "fail", status=2).err
    assert "write with --on-duplicates skip" in refused


def test_hints_rename_as_the_option_does(rli: Rli, tmp_path: Path) -> None:
    refused = rli("create", "domains", "--record-key", "Domain name", status=2).err
    assert "rename it, for example to 'domain_name'" in refused
    rli("create", "domains", "--record-key", "domain_name")
    (tmp_path / "d.csv").write_text("Domain name\na.gov\n")
    assert "written as 'domain_name'" in rli("upsert", "domains", "d.csv", status=2).err
    rli("upsert", "domains", "d.csv", "--rename-columns")


def test_restore_tells_what_last_means(rli: Rli, trips: str) -> None:
    first, last = [commit["time"] for commit in rli("timeline", trips, "--json").json]
    refused = rli("restore", trips, "last", status=2).err
    assert f"no commit is after the last: last={last}" in refused
    assert f"rli rollback {trips} last" in refused
    assert f"rli restore {trips} {first}" in refused
    rli("restore", trips, first)


def test_restore_of_an_unwritten_table(rli: Rli) -> None:
    rli("create", "empty", "--record-key", "id")
    assert "no commit" in rli("restore", "empty", "last", status=2).err


def test_dead_store_is_waited_for_once(rli: Rli) -> None:
    refused = rli("create", "far", "--record-key", "id", "--index", "redis://127.0.0.1:1/0?timeout=2", status=4).err
    assert "the store does not answer" in refused
    assert refused.count("for 1 s so far") <= 1


@pytest.mark.parametrize("index", ["lmdb://{}/idx", "global-simple:"])
def test_repeats_in_a_table_of_hudi(rli: Rli, tmp_path: Path, index: str) -> None:
    rli("create", "events", "--record-key", "id", "--partition-by", "day", "--index", "simple:")
    (tmp_path / "e.csv").write_text("id,day\na,x\na,y\n")
    rli("upsert", "events", "e.csv")
    url = index.format(tmp_path)
    refused = rli("index", "bootstrap", "events", "--index", url, status=2).err
    assert "--on-duplicate newest" in refused
    properties = tmp_path / "events" / PROPERTIES_PATH
    text = properties.read_text().replace("SimpleKeyGenerator", "TimestampBasedKeyGenerator")
    properties.write_text(text)
    refused = rli("index", "bootstrap", "events", "--index", url, status=2).err
    assert "--on-duplicate" not in refused
    assert "rli does not write this table" in refused
