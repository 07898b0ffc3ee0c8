"""Which record keys live in more than one place of a table, and where: for the error of a bootstrap."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.sync.comparing_slices import check_slice
from rli.index.record.sync.findings import SAMPLE, Compared
from rli.index.record.sync.known_slices import known_slices
from rli.index.record.sync.written_keys import live_keys
from rli.tasks import TaskRunner
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


def repeated_keys(snapshot: Snapshot, index: StoredEntries, tasks: TaskRunner) -> dict[str, list[str]]:
    """A few record keys that live in more than one place, each with the files that hold it, one for each record.

    Args:
        snapshot: of the table.
        index: of all its keys; of the copies of a key it knows one.
        tasks: runs the work on each file slice.
    """
    log = index.log.refresh()
    slices = known_slices(snapshot, index)
    cutoff = index.cutoff(log)
    items = [Compared(file_slice, log.dictionary.number_of(file_slice.group), cutoff) for file_slice in slices]
    checks = tasks.run(partial(check_slice, snapshot, index, log.head, 1, is_applied=False), items)
    elsewhere = sorted({key for _, check in checks if check is not None for key in check.sample})[:SAMPLE]
    found: defaultdict[str, list[str]] = defaultdict(list)
    for held in tasks.run(partial(_held_by, snapshot, elsewhere, cutoff), slices):
        for key, path in held:
            found[key].append(path)
    return dict(sorted(found.items())[:SAMPLE])


def _held_by(snapshot: Snapshot, wanted: list[str], cutoff: str | None, file_slice: FileSlice) -> list[tuple[str, str]]:
    """Of some keys, the records of a file slice; if there are none to look for, those of keys that it holds twice."""
    path = "" if file_slice.base is None else file_slice.base.path
    keys = pa.chunked_array(list(live_keys(snapshot, file_slice, cutoff)), pa.string())
    if wanted:
        found = keys.filter(pc.is_in(keys, pa.array(wanted, pa.string())))
        return [(key, path) for key in found.to_pylist()]
    counts = pc.value_counts(keys)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))[:SAMPLE]
    return [(count["values"], path) for count in repeated.to_pylist() for _ in range(count["counts"])]
