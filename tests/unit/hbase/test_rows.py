"""Requests to HBase are bounded by rows and by bytes, whatever the rows are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from rli_hbase.client import Client
from rli_hbase.rows import BYTES_PER_REQUEST, Rows
from rli_hbase.thrift import BatchMutation, Mutation
from rli_hbase.url import HbaseSettings

T = TypeVar("T")

LARGE = 60_000


class RecordingThrift:
    """A Thrift interface that answers nothing and notes the rows of each request."""

    def __init__(self) -> None:
        self.requests: list[list[Any]] = []

    def getRowsWithColumns(self, _table: bytes, rows: list[bytes], *_: object) -> list[Any]:  # noqa: N802
        self.requests.append(list(rows))
        return []

    def mutateRowsTs(self, _table: bytes, rows: list[BatchMutation], *_: object) -> None:  # noqa: N802
        self.requests.append(list(rows))


class ConnectedClient(Client):
    """A client that has reached a Thrift interface."""

    def __init__(self, thrift: RecordingThrift) -> None:
        super().__init__(HbaseSettings.from_url("hbase://localhost/?table=t"))
        self._thrift = thrift

    def call(self, work: Callable[[Any], T]) -> T:
        return work(self._thrift)


@pytest.fixture
def thrift() -> RecordingThrift:
    return RecordingThrift()


@pytest.fixture
def rows(thrift: RecordingThrift) -> Rows:
    return Rows(ConnectedClient(thrift), None)


def test_read_request_holds_at_most_megabyte(rows: Rows, thrift: RecordingThrift) -> None:
    wanted = [b"%05d" % number + bytes(LARGE) for number in range(100)]
    assert list(rows.read(wanted, [b"c:e"], 100_000)) == []
    assert sorted(row for request in thrift.requests for row in request) == wanted  # threads send them in any order
    assert max(sum(map(len, request)) for request in thrift.requests) <= BYTES_PER_REQUEST


def test_write_request_holds_at_most_megabyte(rows: Rows, thrift: RecordingThrift) -> None:
    written = [
        BatchMutation(row=b"%05d" % number, mutations=[Mutation(column=b"c:" + bytes(LARGE), value=bytes(LARGE))])
        for number in range(100)
    ]
    rows.write(written, 1, 100_000)
    assert sorted(row.row for request in thrift.requests for row in request) == [row.row for row in written]
    assert max(len(request) for request in thrift.requests) * 2 * LARGE <= BYTES_PER_REQUEST


def test_large_row_is_sent_alone(rows: Rows, thrift: RecordingThrift) -> None:
    sizes = [1, BYTES_PER_REQUEST + 1, 1, 1]
    list(rows.read([bytes(size) for size in sizes], [b"c:e"], 100))
    sent = sorted([len(row) for row in request] for request in thrift.requests)  # threads send them in any order
    assert sent == [[1], [1, 1], [BYTES_PER_REQUEST + 1]]


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, [1]), (10, [10]), (25, [10, 10, 5])])
def test_small_rows_are_bounded_by_count(rows: Rows, thrift: RecordingThrift, count: int, expected: list[int]) -> None:
    list(rows.read([b"%05d" % number for number in range(count)], [b"c:e"], 10))
    assert sorted((len(request) for request in thrift.requests), reverse=True) == expected
