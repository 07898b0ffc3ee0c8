"""Passwords are neither shown nor written, whichever way they are given; tests/services has those that log in."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

import rli as library
from rli.store.credentials import VARIABLE as CREDENTIALS
from rli.store.registry import open_store
from rli.table.table import opened_table
from rli_redis.log_in import HOSTS_VARIABLE, PASSWORD_VARIABLE, SENTINEL_PASSWORD_VARIABLE
from tests.cli.conftest import Rli
from tests.support.leaks import COMMANDS, FEW_COMMANDS, MARK, Leaks, searched_logs
from tests.support.soak import in_ci
from tests.support.waiting import eventually

QUICK = "timeout=0.05"
URLS = [
    f"redis://u:{MARK}@127.0.0.1:1/0?{QUICK}",
    f"rediss://:{MARK}@127.0.0.1:1/0?{QUICK}",
    f"redis+shards://u:{MARK}@127.0.0.1:1,127.0.0.1:2/0?{QUICK}",
    f"redis+cluster://u:{MARK}@127.0.0.1:1?{QUICK}",
    f"redis://u:{MARK}@127.0.0.1:1/0?sentinel=trips&{QUICK}",
    f"unix://u:{MARK}@/nowhere.sock?{QUICK}",
    f"redis://u:{MARK}@h/0?bogus=1",
    f"redis://u:{MARK}@h/0?name=a*b",
    f"redis://u:{MARK}@h/x",
    f"redis://u:{MARK}@h:99999/0",
    f"redis://u:{MARK}/x@h/0",
    f"redis://u:{MARK}#x@h/0",
    f"redis://u:{MARK}?x@h/0",
    f"redis://u:{MARK}[@h/0",
    f"redis://u:{MARK}",
    f"redis:u:{MARK}@h",
    f"redis://127.0.0.1/0?password={MARK}",
    f"rediz://u:{MARK}@h/0",
    f"rediz://u:{MARK}?x@h",
    f"lmdb://u:{MARK}@h/x",
    f"memory://u:{MARK}@h",
    f"hbase://u:{MARK}@h/?table=x",
    f"hbase://h/?table=x&password={MARK}",
]
FEW_URLS = [URLS[0], *URLS[3::3], URLS[-1]]
"""Of all schemes, and of most mistakes."""


@pytest.fixture
def leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leaks]:
    for variable in (PASSWORD_VARIABLE, SENTINEL_PASSWORD_VARIABLE, HOSTS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(CREDENTIALS, str(tmp_path / "credentials.toml"))
    (tmp_path / "rows.jsonl").write_text('{"id":"k1","city":"Oslo","ts":3,"fare":1.0}\n')
    found = Leaks(tmp_path)
    with searched_logs(found):
        yield found


@pytest.mark.parametrize("url", in_ci(FEW_URLS, of=URLS))
def test_commands_hide_password_of_dead_url(trips: str, leaks: Leaks, url: str) -> None:
    leaks.run_all(trips, url, COMMANDS if url == URLS[0] else FEW_COMMANDS)
    table = library.open_table(trips, index=url)
    for shown in (table, opened_table(table).definition, table.settings, vars(table)):
        leaks.search(repr(shown), "repr")
    leaks.attempt(lambda: table.index)
    leaks.attempt(table.bootstrap_index)
    leaks.attempt(lambda: open_store(url, create=True))
    leaks.attempt(lambda: library.create_index(url))
    leaks.search_files("calls")
    assert leaks.found == []


def test_commands_hide_environment_and_file_passwords(
    trips: str, leaks: Leaks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, MARK)
    monkeypatch.setenv(SENTINEL_PASSWORD_VARIABLE, MARK)
    leaks.run_all(trips, f"redis://u@127.0.0.1:1/0?sentinel=trips&{QUICK}")
    monkeypatch.delenv(PASSWORD_VARIABLE)
    for content in (f'["127.0.0.1:1"]\npassword = "{MARK}"\n', f'["127.0.0.1:1"]\npassword = {MARK}\n'):
        (tmp_path / "credentials.toml").touch(mode=0o600)
        (tmp_path / "credentials.toml").write_text(content)
        leaks.run("index", "stats", trips, "--index", f"redis://127.0.0.1:1/0?{QUICK}")
        leaks.attempt(lambda: open_store(f"redis://127.0.0.1:1/0?{QUICK}"))
    assert leaks.found == []


def test_stored_password_is_hidden_but_reported(trips: str, leaks: Leaks, rli: Rli, tmp_path: Path) -> None:
    stored = tmp_path / trips / ".hoodie" / ".rli" / "table.json"
    _name_index(stored, f"redis://u:{MARK}@127.0.0.1:1/0?{QUICK}")
    leaks.run_all(trips, None)
    assert [found for found in leaks.found if "table.json" not in found] == []
    findings = rli("doctor", trips, "--json", status=1).json["findings"]
    [told] = [found for found in findings if found["check"] == "password"]
    assert "table.json" in told["detail"]
    assert "credentials.toml" in told["advice"]
    # It opens the index no more than before, so it stays until the index is elsewhere.
    assert MARK in stored.read_text()
    rli("index", "bootstrap", trips, "--index", f"lmdb://{tmp_path}/elsewhere")
    assert MARK not in stored.read_text()


def test_server_in_table_gets_no_password(trips: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        Thread(target=_receive, args=(server, received), daemon=True).start()
        address = "{}:{}".format(*server.getsockname())
        _name_index(tmp_path / trips / ".hoodie" / ".rli" / "table.json", f"redis://{address}/0?timeout=0.3")
        monkeypatch.setenv(PASSWORD_VARIABLE, MARK)
        for index in (None, f"redis://{address}/0?timeout=0.3"):
            with pytest.raises(library.StoreUnavailableError):
                library.open_table(trips, index=index).lookup(["007"])
            eventually(lambda: bool(received), "the client has sent something")
            if index is None:
                assert MARK.encode() not in b"".join(received)
        # Named by the caller, it is sent: so the test would have seen it.
        eventually(lambda: MARK.encode() in b"".join(received), "the password is sent")


def _receive(server: socket.socket, received: list[bytes]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with closing(connection):
            received.append(connection.recv(4096))


def _name_index(stored: Path, url: str) -> None:
    settings = json.loads(stored.read_text())
    stored.write_text(json.dumps({**settings, "index_url": url}))
