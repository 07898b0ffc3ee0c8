"""A table's index behind a password, in every way of giving it: everything works, and nobody is told the password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import rli
from rli.store.credentials import VARIABLE as CREDENTIALS
from rli.table.table import opened_table
from rli_redis.log_in import HOSTS_VARIABLE, PASSWORD_VARIABLE
from tests.support.docker import Service
from tests.support.indexes import record_index
from tests.support.leaks import COMMANDS, MARK, Leaks, searched_logs
from tests.support.redis import SpareServer, spare_server

pytestmark = pytest.mark.docker

_MOST_FAIL = 6
"""Of all commands; those that name instants which are not there."""


@pytest.fixture(scope="module")
def guarded(redis_server: Service) -> Iterator[SpareServer]:
    """A server with a password."""
    with spare_server(redis_server, "--requirepass", MARK) as server:
        yield server


@pytest.fixture
def leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leaks]:
    monkeypatch.chdir(tmp_path)
    for variable in (PASSWORD_VARIABLE, HOSTS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(CREDENTIALS, str(tmp_path / "credentials.toml"))
    Path("rows.jsonl").write_text('{"id":"k1","city":"Oslo"}\n{"id":"k2","city":"Bergen"}\n')
    found = Leaks(tmp_path)
    with searched_logs(found):
        yield found


def give(way: str, server: SpareServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the password; returns the URL to create a table with."""
    address = "{}:{}".format(*server.target)
    if way in ("url", "earlier version"):
        return server.url().replace("://", f"://default:{MARK}@")
    if way == "credentials":
        Path("credentials.toml").touch(mode=0o600)
        Path("credentials.toml").write_text(f'["{address}"]\npassword = "{MARK}"\n')
    else:
        monkeypatch.setenv(PASSWORD_VARIABLE, MARK)
    if way == "listed hosts":
        monkeypatch.setenv(HOSTS_VARIABLE, address)
    return server.url()


@pytest.mark.parametrize("way", ["url", "variable", "listed hosts", "credentials", "earlier version"])
def test_commands_use_and_hide_password(
    guarded: SpareServer, leaks: Leaks, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    url = give(way, guarded, monkeypatch)
    rli.create_table("trips", record_key="id", partition_by="city", index=url).close()
    stored = Path("trips/.hoodie/.rli/table.json")
    assert MARK not in stored.read_text()
    if way == "earlier version":
        stored.write_text(json.dumps({**json.loads(stored.read_text()), "index_url": url}))
    is_named_each_time = way in ("url", "variable")
    # A name of an index is taken once; to relocate, there is no --index.
    left_out = ("create", "relocate") if is_named_each_time else ("create",)
    commands = [command for command in COMMANDS if command[0] not in left_out and command != ("doctor", "URL")]
    leaks.run_all("trips", url if is_named_each_time else None, commands)
    leaks.run("doctor", url)
    leaks.attempt(rli.open_table("trips", index=url).index.stats)
    table = rli.open_table("trips", index=url if is_named_each_time else None)
    assert table.lookup(["k1"]).num_rows == 1
    for shown in (
        table,
        opened_table(table).definition,
        table.settings,
        table.index,
        record_index(table).store,
        vars(record_index(table).store),
    ):
        leaks.search(repr(shown), "repr")
    assert leaks.ended >= 2 * len(commands) - _MOST_FAIL
    table.drop_index()
    table.close()
    found = [leak for leak in leaks.found if way != "earlier version" or "table.json" not in leak]
    assert found == []


def test_missing_password_names_its_sources(
    guarded: SpareServer, leaks: Leaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = give("url", guarded, monkeypatch)
    rli.create_table("trips", record_key="id", index=url).close()
    monkeypatch.setenv(PASSWORD_VARIABLE, MARK)
    with pytest.raises(rli.SettingsError, match=r"RLI_REDIS_PASSWORD.*--index, index= or RLI_REDIS_HOSTS"):
        rli.open_table("trips").lookup(["k1"])
    wrong = url.replace(MARK, f"no{MARK}")
    leaks.attempt(lambda: rli.open_table("trips", index=wrong).lookup(["k1"]))
    other = rli.create_table("other", record_key="id")
    leaks.attempt(lambda: other.bootstrap_index(url))
    assert leaks.found == []
    with rli.open_table("trips", index=guarded.url(name=url.rpartition("=")[2])) as table:
        table.drop_index()


def test_stored_password_is_removed_when_redundant(
    guarded: SpareServer, leaks: Leaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = give("earlier version", guarded, monkeypatch)
    rli.create_table("trips", record_key="id", index=url).close()
    stored = Path("trips/.hoodie/.rli/table.json")
    stored.write_text(json.dumps({**json.loads(stored.read_text()), "index_url": url}))
    leaks.run("maintenance", "trips", "--off")
    assert MARK in stored.read_text()
    rli.open_table("trips").lookup(["k1"])
    give("credentials", guarded, monkeypatch)
    leaks.run("maintenance", "trips", "--on")
    assert MARK not in stored.read_text()
    with rli.open_table("trips") as table:
        table.lookup(["k1"])
        table.drop_index()
