"""The record keys of file slices, with the commit that wrote each record last: an index with a time to live needs it.

That commit stands with the record (``_hoodie_commit_time``), and every rewriting keeps it. It is also the instant of the
key's entry (P40).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.state import LogState
from rli.locations import LocationUpdate
from rli.tasks import TaskRunner
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


def entry_instants(
    snapshot: Snapshot, file_slices: Sequence[FileSlice], cutoff: str | None, tasks: TaskRunner
) -> list[str]:
    """The instants of the entries of some file slices, ascending: those of the slices, or where keys expire of their records."""
    if cutoff is None:
        return sorted({file_slice.instant for file_slice in file_slices})
    return commit_times(snapshot, file_slices, cutoff, tasks)


def live_keys(snapshot: Snapshot, file_slice: FileSlice, cutoff: str | None) -> Iterator[pa.Array]:
    """The keys of a file slice that have not expired, in batches.

    Args:
        snapshot: of the table.
        file_slice: of it.
        cutoff: see ``StoredEntries.cutoff``.
    """
    if cutoff is None:
        yield from snapshot.record_keys(file_slice)
    else:
        yield from (keys for keys, _ in live_records(snapshot, file_slice, cutoff))


def live_records(snapshot: Snapshot, file_slice: FileSlice, cutoff: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """As ``live_keys``, each with the instant of the commit that wrote it last."""
    for keys, times in snapshot.written_keys(file_slice):
        is_live = pc.greater_equal(times, cutoff)
        yield keys.filter(is_live), times.filter(is_live)


def commit_times(snapshot: Snapshot, file_slices: Sequence[FileSlice], cutoff: str, tasks: TaskRunner) -> list[str]:
    """The commits that wrote records last which have not expired: ascending, so that a newer one has a later sequence."""
    found = set[str]()
    for times in tasks.run(partial(_commit_times_of, snapshot, cutoff), file_slices):
        found |= times
    return sorted(found)


def _commit_times_of(snapshot: Snapshot, cutoff: str, file_slice: FileSlice) -> set[str]:
    return set[str]().union(*(pc.unique(times).to_pylist() for _, times in live_records(snapshot, file_slice, cutoff)))


def place_by_commit_time(
    index: StoredEntries,
    log: LogState,
    file_slice: FileSlice,
    records: Iterable[tuple[pa.Array, pa.Array]],
    sequences: tuple[int, Sequence[str]],
) -> int:
    """Place keys in the file group of a slice, each with the sequence of the commit that wrote it; returns how many.

    Args:
        index: the index.
        log: of it; has the file group.
        file_slice: that holds the keys.
        records: keys and the instants of their commits. Those of other commits than ``sequences`` has are passed over.
        sequences: the first of some commit sequences, and the instant of each.
    """
    first, instants = sequences
    known, placed = pa.array(instants, pa.string()), 0
    for keys, times in records:
        positions = pc.index_in(times, value_set=known)
        has_one = positions.is_valid()
        chosen = keys.filter(has_one)
        offsets: NDArray[np.int64] = positions.filter(has_one).to_numpy().astype(np.int64)
        index.apply(LocationUpdate.placing(chosen, file_slice.group), log, first + offsets)
        placed += len(chosen)
    return placed
