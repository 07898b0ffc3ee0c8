"""A service with a buffered writer is killed at random times, and starts again from what its commits tell.

``RLI_CRASH_SEED`` repeats a run whose seed was printed.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pytest

from rli import create_table, open_table
from tests.support.children import pipe, start_child
from tests.support.docker import Service
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.soak import cases
from tests.support.tables import check_stored

pytestmark = pytest.mark.crash

SEED = int(os.environ.get("RLI_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))
KILLS = cases(5)
PRODUCERS = 3
EACH = 2_000
SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("v", pa.int64())])


def offset_name(producer: int) -> str:
    return f"offset.{producer}"


def serve(folder: Path, acknowledge: Connection) -> None:
    """A child's work: producers write what the table lacks, and the child tells how far its commits reach."""
    table = open_table(folder)
    telling = Lock()
    with table.writer(max_rows=150, max_seconds=0.05, transaction="service", schema=SCHEMA) as writer:
        known = writer.committed.metadata if writer.committed else {}

        def produce(producer: int) -> None:
            for number in range(int(known.get(offset_name(producer), "0")), EACH):
                row = {"id": f"{producer}-{number}", "city": "wxyz"[number % 4], "v": number}
                writer.write(row, metadata={offset_name(producer): str(number + 1)})
                if number % 100 == 0 and writer.committed is not None:
                    with telling:
                        acknowledge.send(dict(writer.committed.metadata))

        with ThreadPoolExecutor(PRODUCERS) as threads:
            list(threads.map(produce, range(PRODUCERS)))
    acknowledge.send("done")


@pytest.mark.slow
@pytest.mark.invariant("P50")
def test_killed_services_lose_no_row(tmp_path: Path) -> None:
    require_every_row_once(tmp_path, f"lmdb://{tmp_path / 'index'}", KILLS)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.invariant("P50")
def test_killed_services_on_redis(tmp_path: Path, redis_server: Service) -> None:
    with dropped_afterwards(redis_url(redis_server)) as url:
        require_every_row_once(tmp_path, url, KILLS // 2)


def require_every_row_once(folder: Path, index: str, kills: int) -> None:
    """Kill a service again and again: what it has told to be committed stays, and each row is written once."""
    print(f"RLI_CRASH_SEED={SEED}")  # noqa: T201  (shown when the test fails)
    source = random.Random(SEED)
    table = create_table(folder / "t", record_key="id", partition_by="city", index=index)
    acknowledged: dict[str, str] = {}
    is_done = False
    for kills_left in reversed(range(kills + 1)):
        receiver, sender = pipe()
        child = start_child(serve, folder / "t", sender)
        sender.close()
        for _ in range(source.randrange(1, 12) if kills_left else 10_000):
            try:
                told = receiver.recv()
            except EOFError:
                break
            is_done = told == "done"
            acknowledged = acknowledged if is_done else told
        # Somewhere between two messages.
        receiver.poll(source.random() / 10)
        child.kill()
        child.join()
        committed = table.writer(transaction="service").committed
        metadata = committed.metadata if committed else {}
        assert all(int(metadata[name]) >= int(offset) for name, offset in acknowledged.items())
        if is_done:
            break
    assert is_done
    assert sorted(table.read(columns=["id", "v"]).to_pylist(), key=lambda row: str(row["id"])) == sorted(
        ({"id": f"{producer}-{number}", "v": number} for producer in range(PRODUCERS) for number in range(EACH)),
        key=lambda row: str(row["id"]),
    )
    done = [entry for entry in table.history() if entry.transaction is not None]
    # Nothing came twice: it would have been an update.
    assert [(entry.updated, entry.unchanged, entry.duplicates) for entry in done] == [(0, 0, 0)] * len(done)
    check_stored(table)
    table.close()
