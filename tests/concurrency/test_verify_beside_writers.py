"""Verify is right while writers work: no false alarm, and a wrong entry is found, alone (P31)."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli import ConflictError, InstantNotFoundError, RliError, Table, VerifyReport, create_table, open_table
from rli.codec import entries as codec
from rli.model import FileGroupId
from rli.table.table import opened_table
from rli.view.file_slices import FileSlice
from tests.support.children import pipe, start_child
from tests.support.docker import Service
from tests.support.indexes import record_index
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.soak import EVERY_POINT, cases
from tests.support.tables import check_stored, records

WRITERS: Final = 3
KEYS: Final = 60
BUSY_CITIES: Final = ("x", "y", "z")
KINDS: Final = ("missing", "misplaced", "dangling", "repeated")
STILL: Final = ("s1", "s2")
"""Partitions of one file each, which no writer touches and no clustering rewrites."""


def work(location: str, number: int, ended: Connection) -> None:
    """Write until the other end is closed: inserts, moves, deletes, and everything that replaces or removes files."""
    chosen = random.Random(number)
    with open_table(location) as table:
        version = 1
        while not ended.poll():
            version += 1
            try:
                do_something(table, chosen, version)
            except (ConflictError, InstantNotFoundError):
                continue  # others were first


def do_something(table: Table, chosen: random.Random, version: int) -> None:
    keys = [f"k{key}" for key in chosen.sample(range(KEYS), 12)]
    action = chosen.randrange(10)
    if action == 0:
        table.delete(keys)
    elif action == 1:
        table.cluster()
    elif action == 2:
        table.clean(keep_commits=1)
    elif action == 3:
        table.rollback(table.timeline()[-1].time)
    else:
        table.upsert(records(*((key, chosen.choice(BUSY_CITIES), version, 0.0) for key in keys)))


@contextmanager
def writers_at_work(table: Table, count: int = WRITERS) -> Iterator[None]:
    pairs = [pipe() for _ in range(count)]
    children = [start_child(work, table.location, number, ended) for number, (ended, _) in enumerate(pairs)]
    try:
        yield
    finally:
        for _, end in pairs:
            end.send(None)
        for child in children:
            child.join()
    assert [child.exitcode for child in children] == [0] * count


def new_table(folder: Path, url: str) -> Table:
    table = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", index=url, shards=3, durability="os"
    )
    table.upsert(records(*((f"{city}-{number}", city, 1, 1.0) for city in STILL for number in range(20))))
    table.upsert(records(*((f"k{key}", BUSY_CITIES[key % 3], 1, 1.0) for key in range(KEYS))))
    return table


def verified(table: Table, times: int) -> Iterator[VerifyReport]:
    """Reports of comparisons, between which the table has changed."""
    before = None
    while times:
        head = record_index(table).log.refresh().head
        if head != before:
            yield table.verify_index()
            before, times = head, times - 1
        else:
            time.sleep(0.01)


def require_no_false_alarm(table: Table) -> None:
    with writers_at_work(table):
        for report in verified(table, cases(6)):
            assert report.agrees, report
            assert report.records >= 40
    check_stored(table)


@pytest.mark.invariant("P31")
def test_verify_beside_writers_raises_no_alarm(tmp_path: Path) -> None:
    require_no_false_alarm(new_table(tmp_path, f"lmdb://{tmp_path}/i"))


@pytest.mark.invariant("P31")
def test_metadata_verify_beside_writers_is_quiet(tmp_path: Path) -> None:
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i")
    table.metadata.enable(["files", "column_stats", "partition_stats", "record_index"])
    with writers_at_work(table):
        for _ in range(cases(3)):
            assert table.metadata.verify() == ()


@pytest.mark.docker
def test_verify_beside_redis_writers_is_quiet(tmp_path: Path, redis_server: Service) -> None:
    with dropped_afterwards(redis_url(redis_server)) as url:
        require_no_false_alarm(new_table(tmp_path, url))


def still_slice(table: Table, city: str) -> FileSlice:
    [found] = [one for one in opened_table(table).snapshot().slices.values() if one.group.partition_path == city]
    return found


def number_of(table: Table, group: FileGroupId) -> int:
    number = record_index(table).log.refresh().dictionary.number_of(group)
    assert number is not None
    return number


def put(table: Table, key: str, number: int) -> None:
    """Write an entry behind the table's back, as one of the newest commit."""
    head = record_index(table).log.refresh().head
    record_index(table).put(pa.array([key]), codec.pack(head, np.array([number])))


def busy_number(table: Table) -> int:
    return number_of(
        table, next(group for group in opened_table(table).snapshot().slices if group.partition_path in BUSY_CITIES)
    )


def still_number(table: Table, city: str) -> int:
    return number_of(table, still_slice(table, city).group)


def repeat_a_record(table: Table) -> None:
    (file,) = still_slice(table, "s2").files
    path = Path(table.location, file.path)
    stored = pq.read_table(path)
    [position] = np.flatnonzero(np.array(stored.column("_hoodie_record_key").to_pylist()) == "s2-3")
    pq.write_table(pa.concat_tables([stored, stored.slice(int(position), 1)]), path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@dataclass(frozen=True)
class Damage:
    """Something wrong with one key, and how a report names it."""

    kind: str
    key: str
    do: Callable[[Table], None]


DAMAGES: Final = (
    Damage("missing", "s1-1", lambda table: put(table, "s1-1", codec.TOMBSTONE)),
    Damage("misplaced", "s1-2", lambda table: put(table, "s1-2", still_number(table, "s2"))),
    Damage("misplaced", "s1-3", lambda table: put(table, "s1-3", busy_number(table))),
    Damage("dangling", "stale", lambda table: put(table, "stale", still_number(table, "s1"))),
    Damage("dangling", "stale in a busy file", lambda table: put(table, "stale in a busy file", busy_number(table))),
    Damage("dangling", "deleted", lambda table: put(table, "deleted", still_number(table, "s1"))),
    Damage("repeated", "s2-3", repeat_a_record),
)
CHOICES: Final = [DAMAGES, *([damage] for damage in DAMAGES if EVERY_POINT)]


@pytest.mark.invariant("P31")
@pytest.mark.parametrize("damages", CHOICES)
def test_verify_finds_only_wrong_entries(tmp_path: Path, damages: Sequence[Damage]) -> None:
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i")
    table.upsert(records(("deleted", "s1", 1, 1.0)))
    table.delete(["deleted"])
    table.upsert(records(("k1", "x", 1, 2.0)))
    with writers_at_work(table, 2):
        for damage in damages:
            damage.do(table)
        for found in verified(table, cases(5)):
            kinds = Counter(damage.kind for damage in damages)
            assert {kind: getattr(found, kind) for kind in KINDS} == {kind: kinds[kind] for kind in KINDS}, found
            assert sorted(found.sample) == sorted(damage.key for damage in damages)


def test_entry_without_commit_is_error(tmp_path: Path) -> None:
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i")
    record_index(table).put(pa.array(["s1-7"]), codec.pack(record_index(table).log.refresh().head + 5, np.array([0])))
    with pytest.raises(RliError, match="entries of unknown commits"):
        table.verify_index()
