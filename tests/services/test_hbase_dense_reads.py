"""Look-ups of keys that lie close together scan ranges of rows; others get each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import entries_of, get_all, key_batch
from rli_hbase.rows import Rows
from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table

pytestmark = pytest.mark.docker

STORED = 12_000
SHARDS = [number % 2 for number in range(STORED)]


def key(number: int) -> bytes:
    """Of the stored keys, those of even numbers, in order."""
    return b"%08d" % number


@pytest.fixture(scope="module")
def store(hbase: Service) -> Iterator[Store]:
    with open_store(hbase_url(hbase, new_table(), batch=1000), create=True) as opened:
        opened.put(key_batch([key(2 * number) for number in range(STORED)], SHARDS), entries_of(1, range(STORED)))
        yield opened
        opened.drop()


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many rows look-ups get and scan."""
    counted = {"got": 0, "scanned": 0}
    read, pages = Rows.read, Rows.pages

    def noted_read(self: Rows, rows: Sequence[bytes], columns: Sequence[bytes], batch: int) -> Iterator[object]:
        counted["got"] += len(rows)
        return read(self, rows, columns, batch)

    def noted_pages(
        self: Rows, columns: Sequence[bytes], start: bytes, stop: bytes | None, limit: int
    ) -> Iterator[list[object]]:
        for page in pages(self, columns, start, stop, limit):
            counted["scanned"] += len(page)
            yield page

    monkeypatch.setattr(Rows, "read", noted_read)
    monkeypatch.setattr(Rows, "pages", noted_pages)
    return counted


def look_up(store: Store, numbers: Sequence[int]) -> None:
    """Look up keys, in a wild order and one of them twice, and compare with what is stored."""
    wild = [*numbers[1::2], *numbers[::2], numbers[0]]
    found = get_all(store, [key(number) for number in wild], [number // 2 % 2 for number in wild])
    stored = entries_of(1, range(STORED)).tolist()
    assert found == [0 if number % 2 or number >= 2 * STORED else stored[number // 2] for number in wild]


@pytest.mark.parametrize(
    ("numbers", "at_most_got"),
    [
        pytest.param(range(2 * STORED), 0, id="all"),
        pytest.param(range(0, 2 * STORED, 4), 0, id="every second"),
        pytest.param([*range(6000, 10_000), *range(3 * STORED, 3 * STORED + 1000)], 0, id="a range and new keys"),
        pytest.param([*range(0, 2 * STORED, 40), *range(4000, 16_000)], 2500, id="a range and strewn keys"),
    ],
)
def test_dense_keys_are_scanned(
    store: Store, requested: dict[str, int], numbers: Sequence[int], at_most_got: int
) -> None:
    look_up(store, numbers)
    assert requested["got"] <= at_most_got
    assert requested["scanned"] > 0


@pytest.mark.parametrize(
    ("numbers", "at_most_scanned"),
    [
        pytest.param([*range(0, 2 * STORED, 16), *range(3, 2 * STORED, 8)], 200, id="strewn"),
        pytest.param(range(3000), 0, id="few"),
    ],
)
def test_strewn_keys_are_not(
    store: Store, requested: dict[str, int], numbers: Sequence[int], at_most_scanned: int
) -> None:
    look_up(store, numbers)
    assert requested["got"] == len(numbers)
    assert requested["scanned"] <= at_most_scanned


def test_ceiling_reads_no_rows_between_keys(store: Store, requested: dict[str, int]) -> None:
    with open_store(f"{store.url}&ops_per_second=1000000", create=False) as limited:
        look_up(limited, range(2 * STORED))
    assert requested == {"got": 2 * STORED, "scanned": 0}
