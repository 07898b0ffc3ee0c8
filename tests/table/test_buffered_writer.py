"""A buffered writer loses no row, commits none twice, and takes no more than it has room for (docs/protocol.md, P50)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from rli import (
    BufferedWriter,
    BufferFullError,
    InvalidInputError,
    PartitionChangeError,
    SettingsError,
    Step,
    Table,
    TransactionMismatchError,
)
from tests.support.tables import by_key, check_stored, records, rows_of
from tests.support.waiting import eventually
from tests.table.test_many_writers import AtStep

FOREVER: dict[str, Any] = {"max_seconds": None}


def row(key: str, city: str = "x", ts: int = 1, v: float = 1.0) -> dict[str, Any]:
    return {"id": key, "city": city, "ts": ts, "v": v}


def keys_of(table: Table) -> list[str]:
    return [found["id"] for found in rows_of(table)]


@pytest.fixture
def written(trips: Table) -> Table:
    """A table with columns, and one record."""
    trips.upsert(records(("first", "x", 1, 1.0)))
    return trips


@contextmanager
def lease_held(table: Table) -> Iterator[Event]:
    """Another write holds the table's lease, until the event is set or the block ends."""
    held, free = Event(), Event()

    def hold() -> None:
        held.set()
        free.wait()

    other = Thread(
        target=table.upsert, args=(records(("other", "z", 1, 1.0)),), kwargs={"on_step": AtStep(Step.LEASED, hold)}
    )
    other.start()
    held.wait()
    try:
        yield free
    finally:
        free.set()
        other.join()


def commits_of(table: Table) -> int:
    return len([instant for instant in table.timeline() if instant.is_write and instant.is_completed])


def test_rows_share_one_commit(table: Table) -> None:
    with table.writer(**FOREVER) as writer:
        for number in range(50):
            writer.write(row(f"k{number:02}"))
        writer.write(records(("a", "y", 1, 2.0)))
        writer.write([row("b"), row("c")])
        assert keys_of(table) == []
    assert keys_of(table) == ["a", "b", "c", *(f"k{number:02}" for number in range(50))]
    assert commits_of(table) == 1
    check_stored(table)


def test_later_rows_win(written: Table) -> None:
    with written.writer(**FOREVER) as writer:
        writer.write(row("a", v=1.0))
        writer.write(records(("a", "x", 1, 2.0)))
        writer.write(row("a", v=3.0))
    assert by_key(rows_of(written))["a"]["v"] == 3.0


@pytest.mark.invariant("P50")
@pytest.mark.parametrize("limit", ["max_rows=3", "max_bytes=50"])
def test_full_buffers_are_committed(written: Table, limit: str) -> None:
    name, most = limit.split("=")
    limits: dict[str, Any] = {**FOREVER, name: int(most)}
    writer = written.writer(**limits)
    for number in range(3):
        writer.write(row(f"k{number}"))
    eventually(lambda: writer.committed, "a commit of the full buffer")
    assert keys_of(written) == ["first", "k0", "k1", "k2"]
    writer.close()


def test_waiting_rows_are_committed(written: Table) -> None:
    """By the timer: no other row comes."""
    writer = written.writer(max_seconds=0.01)
    writer.write(row("a"))
    eventually(lambda: writer.committed, "a commit by the timer")
    assert keys_of(written) == ["a", "first"]
    writer.close()


def test_full_buffers_hold_writes_back(written: Table) -> None:
    with written.writer(max_rows=10, **FOREVER) as writer, lease_held(written) as free:
        for number in range(20):
            writer.write(row(f"k{number:02}"))
        with pytest.raises(BufferFullError, match=r"rows=10 .* waited=0"):
            writer.write(row("late"), timeout=0)
        with ThreadPoolExecutor(1) as threads:
            blocked = threads.submit(writer.write, row("waiting"))
            assert not blocked.done()
            free.set()
            blocked.result()
        writer.flush()
        assert keys_of(written) == ["first", *(f"k{number:02}" for number in range(20)), "other", "waiting"]


def test_threads_lose_no_row(table: Table) -> None:
    source = random.Random(7)
    rows = [[row(f"{thread}-{number}", source.choice("wxyz"), number) for number in range(300)] for thread in range(4)]
    with table.writer(max_rows=100, transaction="job") as writer, ThreadPoolExecutor(4) as threads:

        def write(thread: int) -> None:
            for number, given in enumerate(rows[thread]):
                writer.write(given, metadata={f"offset.{thread}": str(number)})

        list(threads.map(write, range(4)))
    assert by_key(rows_of(table)) == by_key(given for part in rows for given in part)
    committed = table.writer(transaction="job").committed
    assert committed is not None
    assert committed.metadata == {f"offset.{thread}": "299" for thread in range(4)}
    assert committed.number == commits_of(table)
    check_stored(table)


def test_failed_rows_are_tried_again(written: Table) -> None:
    writer = written.writer(on_partition_change="fail", **FOREVER)
    writer.write(row("first", city="y", ts=5))
    with pytest.raises(PartitionChangeError):
        writer.flush()
    [kept] = writer.unwritten
    assert kept.to_pylist() == [row("first", city="y", ts=5)]
    written.delete(["first"])
    writer.close()
    assert rows_of(written) == [row("first", city="y", ts=5)]
    assert writer.unwritten == ()


def test_failures_are_told_by_writes(written: Table) -> None:
    with written.writer(on_partition_change="fail", max_rows=1, **FOREVER) as writer:
        writer.write(row("first", city="y", ts=5))

        def fails() -> bool:
            try:
                writer.write(row("a"), timeout=0)
            except PartitionChangeError:
                return True
            except BufferFullError:
                pass
            return False

        eventually(fails, "a failure that a write tells")
        written.delete(["first"])
    assert keys_of(written)[-1] == "first"


def test_failing_close_stays_open(written: Table) -> None:
    writer = written.writer(on_partition_change="fail", **FOREVER)
    writer.write(row("first", city="y", ts=5))
    with pytest.raises(PartitionChangeError):
        writer.close()
    written.delete(["first"])
    writer.write(row("a"))
    writer.close()
    assert keys_of(written) == ["a", "first"]
    with pytest.raises(InvalidInputError, match="closed"):
        writer.write(row("b"))


def test_exceptions_leave_rows_unwritten(written: Table) -> None:
    writer = written.writer(**FOREVER)

    def fail() -> None:
        with writer:
            writer.write(row("a"))
            writer.flush()
            writer.write(row("b"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert keys_of(written) == ["a", "first"]
    assert [table.to_pylist() for table in writer.unwritten] == [[row("b")]]


def test_restarts_know_their_position(written: Table) -> None:
    assert written.writer(transaction="job").committed is None
    with written.writer(transaction="job", **FOREVER) as writer:
        writer.write(row("a"), metadata={"offset": "7", "source": "s"})
        writer.flush()
        writer.write(row("b"), metadata={"offset": "8"})
    with written.writer(transaction="job") as writer:
        assert writer.committed is not None
        assert writer.committed.number == 2
        assert writer.committed.metadata == {"offset": "8", "source": "s"}
        assert writer.committed.result.inserted == 1
    assert written.writer(transaction="another").committed is None


def test_positions_outlive_an_archive(written: Table) -> None:
    with written.writer(transaction="job") as writer:
        writer.write(row("a"), metadata={"offset": "7"})
    for number in range(12):
        written.upsert(records(("b", "x", number, 1.0)))
    written.clean(keep_commits=2)
    written.archive(keep_commits=4)
    committed = written.writer(transaction="job").committed
    assert committed is not None
    assert committed.result.instant not in {instant.time for instant in written.timeline()}
    assert committed.metadata == {"offset": "7"}


def test_rollbacks_take_positions_back(written: Table) -> None:
    with written.writer(transaction="job", **FOREVER) as writer:
        writer.write(row("k1"), metadata={"offset": "1"})
        writer.flush()
        writer.write(row("k2"), metadata={"offset": "2"})
        done = writer.flush()
    assert done is not None
    assert done.instant is not None
    written.rollback(done.instant)
    with written.writer(transaction="job") as writer:
        assert writer.committed is not None
        assert writer.committed.metadata == {"offset": "1"}
        writer.write(row("k2"), metadata={"offset": "2"})
    assert keys_of(written) == ["first", "k1", "k2"]


def test_second_writers_of_a_transaction_fail(written: Table) -> None:
    """A process that was taken for dead commits nothing behind the one that took its place."""
    former, latter = (written.writer(transaction="job", **FOREVER) for _ in range(2))
    former.write(row("a"))
    latter.write(row("b"))
    latter.flush()
    with pytest.raises(TransactionMismatchError):
        former.flush()
    former.abort()
    latter.close()
    assert keys_of(written) == ["b", "first"]


def test_operations_are_merged(written: Table) -> None:
    with written.writer(op="op", **FOREVER) as writer:
        writer.write({**row("a"), "op": "c"})
        writer.write({"id": "first", "ts": 9, "op": "d"})
        writer.write(pa.table({"id": ["a"], "ts": [3], "op": ["D"]}))
        writer.write({**row("b"), "op": "u"})
    assert keys_of(written) == ["b"]
    check_stored(written)


def test_missing_columns_are_chosen(written: Table) -> None:
    with written.writer(missing="null") as writer:
        writer.write({"id": "a", "city": "x", "ts": 1})
    with written.writer(missing="keep", schema=written.schema.remove(3) if written.schema else None) as writer:
        writer.write({"id": "first", "city": "x", "ts": 2})
    assert rows_of(written) == [{**row("a"), "v": None}, row("first", ts=2)]


def test_event_loops_go_on(written: Table) -> None:
    async def main() -> None:
        async with written.writer(max_rows=10, **FOREVER) as writer:
            with lease_held(written) as free:
                for number in range(20):
                    await writer.write_async(row(f"k{number:02}"))
                blocked = asyncio.create_task(writer.write_async(row("waiting")))
                given_up = asyncio.create_task(writer.write_async(row("cancelled")))
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not blocked.done()
                given_up.cancel()
                assert isinstance((await asyncio.gather(given_up, return_exceptions=True))[0], asyncio.CancelledError)
                free.set()
                await blocked
            done = await writer.flush_async()
            assert done is not None
            await writer.write_async([row("last")])

    asyncio.run(main())
    assert keys_of(written) == ["first", *(f"k{number:02}" for number in range(20)), "last", "other", "waiting"]


def test_limits_are_positive(written: Table) -> None:
    with pytest.raises(SettingsError, match="max_rows=0"):
        written.writer(max_rows=0)
    with pytest.raises(SettingsError, match="max_bytes=-1"):
        written.writer(max_bytes=-1)
    with pytest.raises(SettingsError, match="max_seconds=0"):
        written.writer(max_seconds=0)


def test_empty_writers_commit_nothing(written: Table) -> None:
    with written.writer() as writer:
        assert writer.flush() is None
        assert isinstance(writer, BufferedWriter)
    assert commits_of(written) == 1
