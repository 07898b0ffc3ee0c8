"""Each reader beside each operation: whole operations of others between any two requests of the reader (P44)."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import (
    CorruptIndexError,
    IndexMismatchError,
    IndexNotFoundError,
    IndexNotReadyError,
    InstantNotFoundError,
    RliError,
    Table,
    TableNotFoundError,
    create_table,
    drop_table,
    open_table,
)
from rli.cli.checkup.table import TableCheckup
from rli.findings import Verdict
from rli.table.table import opened_table
from tests.support.index_kinds import KINDS, Kind
from tests.support.interleaving import Intruder, watched_table
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import records, rows_of

pytestmark = pytest.mark.invariant("P44")

KEYS: Final = ["a", "b", "c", "d", "gone", "nobody"]
FEW_POINTS: Final = 1
"""Of the requests of a reader, others cut in before so many in CI, other ones for each operation; before each in a soak."""


@dataclass(frozen=True)
class Place:
    """Where the table of a trial is.

    Attributes:
        location: of the table.
        options: of its storage.
        other_index: URL of an index that it has not had.
        instants: of its writes.
        kind: of its index.
    """

    location: str
    options: dict[str, str]
    other_index: str
    instants: list[str]
    kind: Kind

    def opened(self) -> Table:
        return open_table(self.location, storage_options=self.options)


@pytest.fixture(autouse=True)
def arrow_threads() -> Iterator[None]:
    """Threads enough: while others cut in on a read of Arrow's, its threads wait, and the others read with Arrow, too."""
    processors, files = pa.cpu_count(), pa.io_thread_count()
    pa.set_cpu_count(32)
    pa.set_io_thread_count(32)
    yield
    pa.set_cpu_count(processors)
    pa.set_io_thread_count(files)


Verb = Callable[[Table, Place], object]
Operation = Callable[[Table, Place], object]


def scanned(table: Table, _: Place) -> object:
    scan = table.scan(filters="ts >= 0")
    return rows_of(scan.to_batches().read_all())


def located(table: Table, _: Place) -> object:
    found = table.lookup(KEYS)
    return list(zip(found["record_key"].to_pylist(), found["partition_path"].to_pylist(), strict=True))


def problems_found(table: Table, place: Place) -> object:
    checkup = TableCheckup(place.location, None)
    checkup._storage = opened_table(table).definition.storage  # noqa: SLF001
    return [found for found in checkup.run() if found.verdict is Verdict.PROBLEM]


def changed(table: Table, place: Place) -> object:
    rows = table.changes(since=place.instants[1], until=place.instants[2]).read_all().to_pylist()
    return sorted((row["id"], row["ts"], row["_change_type"]) for row in rows)


def changed_since(table: Table, place: Place) -> object:
    rows = table.changes(since=place.instants[1]).read_all().to_pylist()
    return sorted((row["id"], row["ts"], row["_change_type"]) for row in rows)


NAMED_STATES: Final = ("scan", "files", "read as of", "read as of last", "changes", "changes since")
"""Verbs that promise one state, or one range of commits."""

BOTH: Final = ("record", "global-simple")
"""Kinds of index: with a store, and without one."""
VERBS: dict[str, Verb] = {
    "read": lambda table, _: rows_of(table.read()),
    "filtered read": lambda table, _: rows_of(table.read(filters="ts > 2")),
    "read as of": lambda table, place: rows_of(table.read(as_of=place.instants[1])),
    "read as of last": lambda table, place: rows_of(table.read(as_of=place.instants[-1])),
    "scan": scanned,
    "changes": changed,
    "changes since": changed_since,
    "files": lambda table, _: len(table.scan(filters="ts > 2").files()),
    "get": lambda table, _: rows_of(table.get(KEYS)),
    "lookup": located,
    "verify": lambda table, _: table.verify_index(deep=True).agrees,
    "sync": lambda table, _: table.sync_index() is None,
    "info": lambda table, _: table.info().problems,
    "history": lambda table, _: table.history() is None,
    "doctor": problems_found,
}


def commit(table: Table, _: Place) -> None:
    table.upsert(records(("a", "x", 20, 1.0), ("c", "z", 20, 1.0), ("new", "y", 20, 1.0)))


def commit_and_clean(table: Table, place: Place) -> None:
    commit(table, place)
    table.clean(keep_commits=1)


def undo_and_commit(table: Table, place: Place) -> None:
    table.rollback("last")
    commit_and_clean(table, place)


def archive(table: Table, place: Place) -> None:
    commit_and_clean(table, place)
    table.archive(keep_commits=1)


def cluster(table: Table, place: Place) -> None:
    if place.kind.can_cluster:
        table.cluster()
    commit_and_clean(table, place)


def save_and_restore(table: Table, place: Place) -> None:
    table.savepoint(place.instants[-2])
    table.restore(place.instants[-2])


def restore_and_archive(table: Table, place: Place) -> None:
    table.restore(place.instants[-3])
    archive(table, place)


def migrate(table: Table, place: Place) -> None:
    table.migrate_index(place.other_index, drop_old=True)
    commit(table, place)


def drop_and_create(table: Table, place: Place) -> None:
    url = table.settings.index_url
    table.close()
    drop_table(place.location, storage_options=place.options)
    create_table(
        place.location,
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=url,
        storage_options=place.options,
        maintenance=False,
    ).upsert(records(("a", "x", 30, 1.0)))


OPERATIONS: dict[str, Operation] = {
    "commit": commit,
    "rollback": lambda table, _: table.rollback("last"),
    "commit and clean": commit_and_clean,
    "rollback, commit and clean": undo_and_commit,
    "archive": archive,
    "clustering": cluster,
    "savepoint and restore": save_and_restore,
    "restore and archive": restore_and_archive,
    "migration": migrate,
    "drop and creation": drop_and_create,
}


def outcome(verb: Verb, table: Table, place: Place) -> object:
    """What a verb answers, or the kind of its error."""
    try:
        return verb(table, place)
    except RliError as error:
        return type(error)


def write_all(table: Table) -> list[str]:
    """Five commits: records that are updated, moved, deleted and left alone."""
    table.upsert(records(*((key, "x", 1, 1.0) for key in ("a", "b", "gone")), ("c", "y", 1, 1.0), ("d", "z", 1, 1.0)))
    table.upsert(records(("a", "x", 2, 1.0), ("c", "y", 2, 1.0)))
    table.delete(["gone"])
    table.upsert(records(("b", "x", 4, 1.0), ("d", "z", 4, 1.0)))
    table.upsert(records(("a", "x", 5, 1.0), ("c", "y", 5, 1.0)))
    return [instant.time for instant in table.timeline() if instant.is_write]


def allowed(operation: str, verb: str) -> tuple[type[RliError], ...]:
    """Errors that say what others did, beside the states of the table."""
    if operation == "drop and creation":
        # The handle is of a table that is gone, or of its index.
        gone = (TableNotFoundError, IndexMismatchError, IndexNotFoundError, IndexNotReadyError, InstantNotFoundError)
        return (*gone, CorruptIndexError) if verb in {"sync", "verify"} else gone
    return (InstantNotFoundError,) if verb in NAMED_STATES else ()


def wrong_answers(
    verb: str, places: Iterator[Place], names: Iterable[str] = tuple(OPERATIONS), points: int = FEW_POINTS
) -> list[str]:
    """What a verb answers beside some operations and is neither a state of the table nor an error that tells of others."""
    first = next(places)
    counting = Intruder()
    with watched_table(first.location, counting, first.options) as table:
        VERBS[verb](table, first)
    wrong = []
    for name in names:
        operation = OPERATIONS[name]
        stride = 1 if EVERY_POINT else max(1, counting.requests // points)
        offset = zlib.crc32(f"{first.kind.url} {verb} {name}".encode()) % stride
        for number in range(offset, counting.requests, stride):
            place = next(places)
            if (answer := wrong_answer(verb, name, operation, number, place)) is not None:
                wrong.append(f"{verb} beside {name} before request {number}: {answer}")
    return wrong


def wrong_answer(verb: str, name: str, operation: Operation, number: int, place: Place) -> str | None:
    run = VERBS[verb]
    with place.opened() as other:
        states = [outcome(run, other, place)]

        def cut_in() -> None:
            operation(other, place)
            with place.opened() as after:
                states.append(outcome(run, after, place))

        with watched_table(place.location, Intruder(number, cut_in), place.options) as reader:
            try:
                answer = run(reader, place)
            except allowed(name, verb):
                return None
            except RliError as error:
                return None if type(error) in states else repr(error)
        if answer in states or (name == "drop and creation" and verb in {"info", "doctor", "verify", "sync"}):
            return None
        return f"{answer} of {states}"


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "index"), in_ci([*zip(VERBS, cycle(BOTH))], of=[*product(VERBS, BOTH)]))
def test_readers_beside_whole_operations(verb: str, index: str, tmp_path: Path) -> None:
    kind = KINDS[index]
    table = kind.create(tmp_path, maintenance=False, durability="os")
    instants = write_all(table)
    table.close()
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("table", "index"):
        if (tmp_path / name).exists():
            shutil.move(tmp_path / name, kept / name)

    def places() -> Iterator[Place]:
        number = 0
        while True:
            number += 1
            for name in ("table", "index"):
                shutil.rmtree(tmp_path / name, ignore_errors=True)
            shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
            other = f"lmdb://{tmp_path}/other{number}" if kind.url == "global-simple:" else "global-simple:"
            yield Place(str(tmp_path / "table"), {}, other, instants, kind)

    assert wrong_answers(verb, places()) == []
