"""File groups of which a clean of another engine has removed the version before a commit: the entries tell what it held (P62)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from rli.codec import entries as codec
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.sync.foreign_changes import apply_cleaned_change
from rli.tasks import InThreads, TaskRunner, lots_of
from rli.view.diff import GroupChange
from rli.view.snapshot import Snapshot

_LOT_BYTES: Final = 1 << 30
"""Of data files: the keys of a lot are in memory, and all entries are searched for each lot."""


def apply_cleaned_changes(
    snapshot: Snapshot, index: StoredEntries, record: LogRecord, changes: Sequence[GroupChange], tasks: TaskRunner
) -> Iterator[None]:
    """Bring the changes of such file groups into the index; stops after each part.

    All earlier records of the log are applied. So the keys that the index has in a file group were in the version before (P2).

    Args:
        snapshot: of the table.
        index: the index.
        record: that is applied.
        changes: ``before`` is None.
        tasks: runs the work on each file group.
    """
    dictionary = index.log.refresh().dictionary
    for lot in lots_of(changes, lambda change: 0 if change.after is None else change.after.size, _LOT_BYTES):
        numbers = [dictionary.number_of(change.group) for change in lot]
        known = [number for number in numbers if number is not None]
        # Here, not by tasks: the results of tasks are small.
        found = [*InThreads().run(partial(_keys_in, index, known), range(index.settings.shard_count))]
        items = [
            (change, _joined(part.get(number) for part in found)) for change, number in zip(lot, numbers, strict=True)
        ]
        for _ in tasks.run(partial(apply_cleaned_change, snapshot, index, record), items):
            yield


def _keys_in(index: StoredEntries, groups: Sequence[int], shard: int) -> dict[int | None, pa.Array]:
    """The record keys of a shard whose entries name some file groups, by the numbers of these."""
    batches, numbers = [pa.array([], pa.string())], [np.empty(0, np.uint32)]
    for keys, entries in index.scan(shard):
        named = codec.file_groups(entries)
        chosen = codec.is_live(entries) & np.isin(named, groups)
        batches.append(index.codec.record_keys_of(keys.filter(pa.array(chosen))))
        numbers.append(named[chosen])
    every, number_of = pa.concat_arrays(batches), np.concatenate(numbers)
    return {int(number): every.filter(pa.array(number_of == number)) for number in np.unique(number_of)}


def _joined(parts: Iterable[pa.Array | None]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *(part for part in parts if part is not None)])
