"""An index in HBase that was dropped gives nothing and takes nothing, also where it is still open."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from zlib import crc32

import happybase
import pytest

from rli.errors import CorruptIndexError, IndexMismatchError, IndexNotFoundError, SettingsError, StoreUnavailableError
from rli.findings import Verdict
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import entries_of, entry, get_all, key_batch, scanned
from rli_hbase import HbaseStore
from rli_hbase.client import Client
from rli_hbase.health import table_health
from rli_hbase.url import HbaseSettings
from tests.support.docker import Service
from tests.support.hbase import create_table, hbase_url, new_table, split_region, url_of
from tests.support.services import HBASE_PORT
from tests.support.tcp_proxy import Fate, tcp_proxy

pytestmark = pytest.mark.docker


@pytest.fixture
def table(hbase: Service) -> Iterator[str]:
    """The name of a table that is removed afterwards, should there be one."""
    name = new_table()
    yield name
    with suppress(IndexNotFoundError), open_store(hbase_url(hbase, name), create=False) as store:
        store.drop()


@pytest.fixture
def raw(hbase: Service) -> Iterator[happybase.Connection]:
    """HBase without rli."""
    connection = happybase.Connection(hbase.host, hbase.ports[HBASE_PORT])
    yield connection
    connection.close()


def every_use(store: Store) -> list[Callable[[], object]]:
    return [
        lambda: get_all(store, [b"k"]),
        lambda: get_all(store, [b"k" * 2000]),
        lambda: store.put(key_batch([b"k"]), entries_of(9, [9])),
        lambda: scanned(store, [0]),
        lambda: store.read_control("settings"),
        lambda: store.read_controls(["settings", "lease"]),
        lambda: store.scan_control(""),
        lambda: store.compare_and_set("lease", None, b"mine"),
        store.stats,
        store.drop,
    ]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_open_handles_find_no_dropped_index(hbase: Service, table: str, *, is_made_again: bool) -> None:
    url = hbase_url(hbase, table)
    with open_store(url, create=True) as old, open_store(url, create=False) as dropper:
        old.put(key_batch([b"k"]), entries_of(5, [5]))
        dropper.drop()
        if is_made_again:
            with open_store(url, create=True) as new:
                new.put(key_batch([b"new"]), entries_of(1, [1]))
        for use in every_use(old):
            with pytest.raises(IndexNotFoundError):
                use()
        with pytest.raises(IndexNotFoundError), pickle.loads(pickle.dumps(old)) as copy:  # noqa: S301  (made here)
            get_all(copy, [b"k"])
    if is_made_again:
        with open_store(url, create=False) as new:
            assert scanned(new, [0]) == {(0, b"new"): entry(1, 1)}
            assert new.scan_control("") == []


def drop_until(request_name: bytes, hbase: Service, table: str) -> None:
    """Drop an index in a process that loses HBase when it comes to a request."""
    # Making the table may take longer than the drop is given.
    open_store(hbase_url(hbase, table), create=True).close()
    with (
        tcp_proxy((hbase.host, hbase.ports[HBASE_PORT])) as proxy,
        open_store(url_of(proxy.host, proxy.port, table, timeout=5), create=False) as store,
    ):
        store.put(key_batch([b"k"]), entries_of(5, [5]))
        proxy.once(request_name, Fate.LOST_BEFORE, proxy.close)
        with pytest.raises(StoreUnavailableError):
            store.drop()


def test_interrupted_drop_is_finished_by_creation(hbase: Service, table: str) -> None:
    drop_until(b"disableTable", hbase, table)
    with pytest.raises(IndexNotFoundError):
        open_store(hbase_url(hbase, table), create=False)
    with open_store(hbase_url(hbase, table), create=True) as new:
        assert get_all(new, [b"k"]) == [0]


def test_disabled_table_is_left_to_operator(hbase: Service, table: str, raw: happybase.Connection) -> None:
    drop_until(b"deleteTable", hbase, table)
    for create in (False, True):
        with pytest.raises(StoreUnavailableError, match=r"TableNotEnabledException: \w+ is disabled"):
            open_store(hbase_url(hbase, table, timeout=5), create=create)
    raw.enable_table(table)
    with open_store(hbase_url(hbase, table), create=True) as new:
        assert get_all(new, [b"k"]) == [0]


def test_table_made_beforehand_becomes_index(hbase: Service, table: str, raw: happybase.Connection) -> None:
    raw.create_table(table, {name: {"max_versions": 1, "time_to_live": 0x7FFF_FFFF} for name in "elc"})
    with pytest.raises(IndexNotFoundError):
        open_store(hbase_url(hbase, table), create=False)
    with open_store(hbase_url(hbase, table), create=True) as store:
        store.put(key_batch([b"k"]), entries_of(1, [1]))
        assert get_all(store, [b"k"]) == [entry(1, 1)]


def test_documented_table_keeps_its_regions(hbase: Service, table: str, raw: happybase.Connection) -> None:
    create_table(hbase, table, b"\0\x08", b"\0\x10")
    with open_store(hbase_url(hbase, table), create=True) as store:
        for shard in (0, 8, 63):
            store.put(key_batch([b"k"], shard), entries_of(1, [shard]))
        assert [store.get(key_batch([b"k"], shard)).tolist() for shard in (0, 8, 63)] == [
            [entry(1, shard)] for shard in (0, 8, 63)
        ]
    assert [region["start_key"] for region in raw.table(table).regions()] == [b"", b"\0\x08", b"\0\x10"]


def test_foreign_table_is_refused(hbase: Service, table: str, raw: happybase.Connection) -> None:
    raw.create_table(table, {"other": {}})
    for create in (False, True):
        with pytest.raises(SettingsError, match="column families"):
            open_store(hbase_url(hbase, table), create=create)
    raw.delete_table(table, disable=True)


def test_layout_of_other_version_is_refused(hbase: Service, table: str, raw: happybase.Connection) -> None:
    open_store(hbase_url(hbase, table), create=True).close()
    raw.table(table).put(b"\xff\xff", {b"c:g": b"\x03" + bytes(16)})
    for create in (False, True):
        with pytest.raises(IndexMismatchError, match="version=3"):
            open_store(hbase_url(hbase, table), create=create)
    for damaged in (b"", b"\0", b"\x08\x08"):
        raw.table(table).put(b"\xff\xff", {b"c:g": b"\x02" + bytes(16) + damaged})
        with pytest.raises(CorruptIndexError, match="header of the index is damaged"):
            open_store(hbase_url(hbase, table), create=True)
    raw.delete_table(table, disable=True)


def test_stored_bytes_match_version_2(hbase: Service, table: str, raw: happybase.Connection) -> None:
    """Of the keys of one value, most are in one family, and those whose rest has a CRC-32 that 256 divides in the other."""
    rests = [b"%05d" % number for number in range(400)]
    with open_store(hbase_url(hbase, table, prefix=8), create=True) as store:
        store.put(key_batch([b"8 bytes!" + rest for rest in rests], 0x1234), entries_of(7, range(400)))
        store.put(key_batch([b"short"], 1), entries_of(7, [5]))
    rows = dict(raw.table(table).scan(include_timestamp=True))
    generation = rows.pop(b"\xff\xff")[b"c:g"][0]
    assert (generation[0], len(generation), generation[17]) == (2, 18, 8)
    families = {rest: b"l:" if crc32(rest) % 256 == 0 else b"e:" for rest in rests}
    assert set(families.values()) == {b"e:", b"l:"}
    stamp = generation[1:5]
    assert rows == {
        # The CRC-32 of nothing is 0, so keys that are no longer than the prefix are in the sample.
        b"\0\1short": {b"l:" + stamp: (b"\0\0\0\x07\0\0\0\x05", 7)},
        b"\x12\x348 bytes!": {
            families[rest] + stamp + rest: (bytes.fromhex(f"{7:08x}{number:08x}"), 7)
            for number, rest in enumerate(rests)
        },
    }


def test_stored_bytes_match_version_1(hbase: Service, table: str, raw: happybase.Connection) -> None:
    with open_store(hbase_url(hbase, table), create=True) as store:
        store.put(key_batch([b"key"], 0x1234), entries_of(7, [5]))
        store.put(key_batch([b"w" * 1025], 1), entries_of(8, [6]))
        store.compare_and_set("settings", None, b"value")
    rows = dict(raw.table(table).scan(include_timestamp=True))
    generation = rows[b"\xff\xff"][b"c:g"][0]
    stamp = generation[1:5]
    assert (generation[:1], len(generation)) == (b"\x01", 17)
    assert rows.pop(b"\x12\x34key") == {b"e:" + stamp: (b"\0\0\0\x07\0\0\0\x05", 7)}
    digest = bytes.fromhex("a7d3e559")
    long_row = next(row for row in rows if row.startswith(b"\0\x01"))
    assert (long_row[2:6], len(long_row)) == (digest, 34)
    assert rows.pop(long_row) == {b"l:" + stamp + b"w" * 1025: (b"\0\0\0\x08\0\0\0\x06", 8)}
    [record] = rows.pop(b"\xff\xffrsettings").values()
    assert (record[0][:1], record[0][9:]) == (b"=", b"\0value")
    assert list(rows) == [b"\xff\xff"]


def test_doctor_sees_number_of_regions(hbase: Service, table: str) -> None:
    with open_store(hbase_url(hbase, table), create=True) as store:
        assert isinstance(store, HbaseStore)
        regions, *families = store.health()
        assert (regions.check, regions.verdict) == ("regions", Verdict.WARNING)
        assert f"split '{table}', \"\\x00\\x08\"" in (regions.advice or "")
        assert [finding.verdict for finding in families] == [Verdict.OK] * 3
        split_region(hbase, table, b"\0\x08")
        assert store.health()[0].verdict == Verdict.OK


def test_doctor_sees_unsafe_column_families(hbase: Service, table: str, raw: happybase.Connection) -> None:
    raw.create_table(table, {"e": {"time_to_live": 3600}, "l": {}, "c": {}})
    client = Client(HbaseSettings.from_url(hbase_url(hbase, table)))
    assert [finding.verdict for finding in table_health(client, 1)[1:]] == [
        Verdict.PROBLEM,
        Verdict.WARNING,
        Verdict.WARNING,
    ]
    client.close()
    raw.delete_table(table, disable=True)


@pytest.mark.parametrize("family", list("elc"))
def test_table_with_expiring_cells_is_refused(
    hbase: Service, table: str, raw: happybase.Connection, family: str
) -> None:
    raw.create_table(table, {name: {"time_to_live": 3600} if name == family else {} for name in "elc"})
    with pytest.raises(SettingsError, match=f"family={family} ttl=3600; .*TTL => 'FOREVER'"):
        open_store(hbase_url(hbase, table), create=True)
    raw.table(table).put(b"\xff\xff", {b"c:g": b"\x01" + bytes(16)})
    with pytest.raises(SettingsError, match=f"family={family} ttl=3600"):
        open_store(hbase_url(hbase, table), create=False)
    raw.delete_table(table, disable=True)
