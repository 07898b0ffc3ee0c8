"""Thrift servers that frame or encode in another way than by default."""

from __future__ import annotations

import pytest

from rli.errors import StoreUnavailableError
from rli.store.registry import open_store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys, scanned
from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table, spare_thrift_server, url_of

pytestmark = pytest.mark.docker

KEYS = random_keys(1000, 16, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "spoken"), [("--framed", {"transport": "framed"}), ("--compact", {"protocol": "compact"})]
)
def test_an_index_behind_such_a_server(hbase: Service, option: str, spoken: dict[str, str]) -> None:
    with spare_thrift_server(hbase, option) as (host, port):
        # The server is still starting: the store waits for it.
        table = new_table()
        with open_store(url_of(host, port, table, timeout=150, **spoken), create=True) as store:
            store.put(key_batch(KEYS), entries_of(1, range(len(KEYS))))
            assert differences(get_all(store, KEYS), [entry(1, number) for number in range(len(KEYS))]) == []
            assert len(scanned(store, [0])) == len(KEYS)
            assert store.compare_and_set("large", None, b"v" * 100_000)
            assert store.read_control("large") == b"v" * 100_000
            with pytest.raises(StoreUnavailableError, match=r"never answers: .*check that transport= and protocol="):
                open_store(url_of(host, port, table, timeout=3))
            store.drop()


@pytest.mark.parametrize("spoken", [{"transport": "framed"}, {"protocol": "compact"}])
def test_wrong_protocol_for_server_is_reported(hbase: Service, spoken: dict[str, str]) -> None:
    with pytest.raises(StoreUnavailableError, match=r"never answers: .*check that transport= and protocol="):
        open_store(hbase_url(hbase, new_table(), timeout=3, **spoken))
