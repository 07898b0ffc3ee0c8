"""The stateful operator of a stream: finds the keys of records in the state of their bucket.

The state is a copy of the table's locations. Nothing depends on when it is brought up to date, or on how often Spark
repeats that: each answer names the state of the table that it holds for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.streaming.state import GroupState

from rli.codec.key_codec import routing_hashes
from rli.file_group import work_rows
from rli.index.following import Position, relocations_of, unseen_writes
from rli.storage import Storage
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.write.rows.tally import Tally
from rli_spark.requests.request_files import key_range
from rli_spark.rows.row_batches import DATA, HASHES, ROWS, packed, unpack
from rli_spark.session.running_task import begin_task
from rli_spark.streams.base import LocationBase, load_base
from rli_spark.streams.location_state import LocationState

BUCKET: Final = "bucket"
FOUND: Final = "found"
POSITION: Final = "position"

CELLS: Final = pa.schema([(BUCKET, pa.int32()), (DATA, pa.binary()), (ROWS, pa.int64()), (HASHES, pa.int64())])
"""Row batches: keyed rows of one bucket; and what was received with them, see ``Keying.received``."""

TAGGED_CELLS: Final = f"{DATA} binary, {FOUND} binary, {POSITION} string, {ROWS} bigint, {HASHES} bigint"
"""Row batches with the locations that the state knows of their keys, as of which position; nulls where it knows nothing."""

_MOST_BEHIND: Final = 16
"""Commits without a change in a bucket after which its state is written all the same, to keep up with the timeline."""


@dataclass(frozen=True, slots=True)
class BucketTagger:
    """Called by Spark for each bucket that has rows. Picklable.

    Attributes:
        table: the table.
        folder: of the stream.
        buckets: of the state.
        ttl: seconds after which keys that nobody uses are forgotten; None: never.
    """

    table: TableDefinition
    folder: str
    buckets: int
    ttl: float | None

    def __call__(self, key: Any, frames: Iterable[Any], state: GroupState) -> Iterable[Any]:
        begin_task()
        told = list(frames)
        rows = pa.concat_tables([unpack(cell) for frame in told for cell in frame[DATA]])
        received = Tally.total(
            Tally(int(count), int(hashes))
            for frame in told
            for count, hashes in zip(frame[ROWS], frame[HASHES], strict=True)
        )
        keys = rows.column(work_rows.RECORD_KEY).combine_chunks()
        now = _seen_by_this_task(self.table, self.folder)
        stored = LocationState.from_stored(state.get) if state.exists else None
        held = self._brought_to(now, int(key[0]), stored)
        if held is not None and not held.may_have_forgotten(keys):
            self._keep(state, stored, held, keys)
            yield _told(rows, received, packed(held.found(keys)), now.position.to_string())
            return
        # The next base fills it again.
        if state.exists:
            state.remove()
        yield _told(rows, received)

    def _brought_to(self, now: _Now, bucket: int, stored: LocationState | None) -> LocationState | None:
        """The locations of a bucket as of now, from its state or from the base; None if neither can be followed."""
        held = None if stored is None or stored.buckets != self.buckets else now.followed(stored, bucket)
        if held is not None or now.base is None or now.base.buckets != self.buckets:
            return held
        if unseen_writes(now.base.position, now.snapshot) is None:
            return None
        locations = now.base.of_bucket(self.table.storage, bucket)
        if locations is None:
            return None
        return now.followed(LocationState.new(self.buckets, now.base.position, locations), bucket)

    def _keep(self, state: GroupState, stored: LocationState | None, held: LocationState, keys: pa.Array) -> None:
        """Have Spark keep the locations, unless what it keeps is as good."""
        if self.ttl is not None:
            held = held.used_by(keys, self.ttl)
        elif stored is not None and held.locations is stored.locations and _is_near(stored.position, held.position):
            return
        state.update(held.to_stored())


@dataclass(frozen=True, slots=True)
class _Relocations:
    """What a commit relocated, ordered by the hashes of the keys."""

    rows: pa.Table
    hashes: NDArray[np.uint32]

    @classmethod
    def of(cls, storage: Storage, instant: str) -> _Relocations | None:
        rows = relocations_of(storage, instant)
        if rows is None:
            return None
        hashes = routing_hashes(rows.column("record_key").combine_chunks())
        order = np.argsort(hashes, kind="stable")
        return cls(rows.take(pa.array(order)), hashes[order])

    def within(self, start: int, stop: int) -> pa.Table:
        first, last = np.searchsorted(self.hashes, np.array([start, stop], np.int64))
        return self.rows.slice(first, last - first)


@dataclass(slots=True)
class _Now:
    """The table as a task sees it.

    Attributes:
        attempt: of which task.
        snapshot: the table.
        base: of the stream.
        position: of the snapshot.
        commits: the relocations of commits that were asked for, as far as journals tell.
    """

    attempt: int
    snapshot: Snapshot
    base: LocationBase | None
    position: Position
    commits: dict[str, _Relocations | None] = field(default_factory=dict)

    def followed(self, state: LocationState, bucket: int) -> LocationState | None:
        """A bucket's state brought to the snapshot; None where journals do not tell how."""
        unseen = unseen_writes(state.position, self.snapshot)
        if unseen is None:
            return None
        relocations = [self._relocations(instant) for instant in unseen]
        told = [found.within(*key_range(bucket, state.buckets)) for found in relocations if found is not None]
        if len(told) < len(relocations):
            return None
        changes = [rows for rows in told if rows.num_rows]
        if changes:
            return state.after(self.position, changes)
        return replace(state, position=self.position)

    def _relocations(self, instant: str) -> _Relocations | None:
        if instant not in self.commits:
            self.commits[instant] = _Relocations.of(self.snapshot.table.storage, instant)
        return self.commits[instant]


_SEEN: Final[dict[str, _Now]] = {}
"""By a stream's folder, the table as the last task of this process has seen it."""


def _seen_by_this_task(table: TableDefinition, folder: str) -> _Now:
    task = TaskContext.get()
    attempt = -1 if task is None else task.taskAttemptId()
    last = _SEEN.get(folder)
    if last is not None and last.attempt == attempt:
        return last
    # The base first: a snapshot that is read later holds all that the base does.
    base = load_base(table.storage, folder)
    snapshot = Snapshot.now(table.reloaded())
    position = Position.of(snapshot)
    known = {} if last is None else {time: rows for time, rows in last.commits.items() if time in position.writes}
    _SEEN[folder] = _Now(attempt, snapshot, base, position, known)
    return _SEEN[folder]


def _is_near(stored: Position, now: Position) -> bool:
    return len(now.writes - stored.writes) < _MOST_BEHIND


def _told(rows: pa.Table, received: Tally, found: bytes | None = None, position: str | None = None) -> pd.DataFrame:
    told = {DATA: packed(rows), FOUND: found, POSITION: position, ROWS: received.keys, HASHES: received.hashes}
    return pd.DataFrame({name: [value] for name, value in told.items()})
