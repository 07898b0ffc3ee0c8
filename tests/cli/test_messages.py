"""Messages that a new user meets: each names the cause, the thing concerned, and what to do."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from redis import exceptions

from rli.errors import SettingsError
from rli.store import registry
from rli_redis.errors import translated_errors
from tests.cli.conftest import Rli


def test_missing_client_library_names_extra() -> None:
    point = EntryPoint(name="hbase+tls", value="rli_hbase_missing.store:open_store", group="rli.stores")
    with pytest.raises(SettingsError, match=r'pip install "record-level-index\[hbase_missing\]"'):
        registry.loaded(point)


def test_lost_index_always_suggests_bootstrap(rli: Rli) -> None:
    rli("create", "my trips", "--record-key", "id")
    rli("index", "drop", "my trips")
    assert "run: rli index bootstrap 'my trips'" in rli("lookup", "my trips", "007", status=2).err
    found = rli("doctor", "my trips", "--json", status=1).json["findings"]
    assert "run: rli index bootstrap 'my trips'" in {finding["advice"] for finding in found}
    rli("index", "bootstrap", "my trips")


def test_doctor_never_recommends_itself(rli: Rli) -> None:
    found = rli("doctor", "redis://127.0.0.1:1/0?timeout=0.1", "--json", status=1).json["findings"]
    assert "doctor" not in found[-1]["advice"]
    assert "built again from the table" in found[-1]["advice"]


@pytest.mark.parametrize(
    ("url", "known"),
    [("redis://user:secret@h/0?nme=x", "allow_eviction, db, name"), ("hbase://h/?nme=x", "table, timeout")],
)
def test_unknown_url_option_is_named(rli: Rli, url: str, known: str) -> None:
    refused = rli("index", "stats", url, status=2).err
    assert "unknown option: option=nme url=" in refused
    assert known in refused
    assert "secret" not in refused


def test_wrong_option_value_names_url(rli: Rli) -> None:
    refused = rli("index", "stats", "redis://h/0?timeout=soon", status=2).err
    assert "an option of the URL is wrong: url=redis://h/0?timeout=soon (settings are not valid: timeout:" in refused


def test_missing_database_is_settings_error() -> None:
    with (
        pytest.raises(SettingsError, match="no database of this number: store=redis://h/99; it has 16 unless"),
        translated_errors("redis://h/99"),
    ):
        raise exceptions.ResponseError("DB index is out of range")


def test_unreadable_file_is_no_format_error(rli: Rli, trips: str, tmp_path: Path) -> None:
    # Its bytes are refused to everybody, also to the superuser.
    (tmp_path / "memory.csv").symlink_to("/proc/self/mem")
    refused = rli("upsert", trips, "memory.csv", status=2).err
    assert "the file cannot be read: file=memory.csv (Input/output error); check its permissions" in refused
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    assert "check its format" in rli("upsert", trips, "bad.csv", status=2).err


@pytest.mark.parametrize("command", ["info", "lookup", "index repair", "index sync", "index bootstrap"])
def test_table_command_refuses_index_url(rli: Rli, command: str) -> None:
    keys = ["k1"] if command == "lookup" else []
    refused = rli(*command.split(), "redis://user:secret@h/0", *keys, status=2).err
    assert (
        "this is the URL of an index, and the command needs its table: url=redis://user:***@h/0; give the folder"
        in refused
    )


def test_advice_names_options_of_the_commands(rli: Rli, trips: str, tmp_path: Path) -> None:
    refused = rli("insert", trips, "day1.jsonl", "--on-existing", "fail", status=2).err
    assert "leave them out, or insert with --on-existing skip" in refused
    (tmp_path / "narrow.csv").write_text("id,city,ts\n007,Oslo,9\n")
    refused = rli("upsert", trips, "narrow.csv", status=2).err
    assert "write with --missing null (they become null) or --missing keep" in refused
    (tmp_path / "moved.csv").write_text("id,city,ts,fare\n007,Oslo,9,1\n")
    refused = rli("upsert", trips, "moved.csv", "--on-partition-change", "fail", status=2).err
    assert "write with --on-partition-change move or --on-partition-change keep" in refused


def test_numbers_of_keys_are_plain_words(rli: Rli, trips: str) -> None:
    assert rli("delete", trips, "k2").out.startswith("batch: 1 key\n")
    assert rli("delete", trips, "k2", "k3").out.startswith("batch: 2 keys\n")


def test_memory_limit_is_never_zero(rli: Rli) -> None:
    assert "at least 0.1 GiB" in rli("capacity", "--records", "1000", "--store", "redis").out


def test_opened_table_is_not_called_created(rli: Rli, trips: str, tmp_path: Path) -> None:
    shown = rli(
        "create", trips, "--record-key", "id", "--partition-by", "city", "--ordering", "ts", "--if-exists", "open"
    )
    assert shown.out.startswith(f"table: {tmp_path}/{trips}\n")


def test_info_names_copyable_command(rli: Rli, trips: str, tmp_path: Path) -> None:
    rli("index", "drop", trips)
    assert f"run: rli index bootstrap {tmp_path}/{trips}\n" in rli("info", trips, status=1).out
