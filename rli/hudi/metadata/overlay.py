"""What the log files of a file group say, folded to one state for each key, and laid over the base file's cells."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.hudi.hfile.cells import CELLS, NO_CELLS, concatenated
from rli.hudi.hfile.key_order import order_of
from rli.hudi.metadata.merging import merged
from rli.hudi.metadata.record_codec import decode_record, encode_record
from rli.hudi.metadata.records import ColumnStatistics, MetadataRecord


@dataclass(frozen=True, slots=True)
class Overlay:
    """The state of each key that log files speak of.

    Attributes:
        cells: of ``CELLS``, sorted by key, one for each key; an empty value stands for a removed record.
        hides_base: bool, shape (n,): what the base file has for the key no longer counts.
    """

    cells: pa.RecordBatch
    hides_base: NDArray[np.bool_]

    @classmethod
    def of(cls, changes: Sequence[pa.RecordBatch], *, merges: bool) -> Overlay:
        """Fold changes in their order.

        Args:
            changes: batches of ``CELLS``, the oldest first.
            merges: records of one key are merged; else the newest stands.
        """
        cells = concatenated(changes)
        ordered = cells.take(pa.array(order_of(cells["key"])))
        ends = _run_ends(ordered["key"])
        last = ordered.take(pa.array(ends))
        if not merges:
            return cls(last, np.ones(len(ends), bool))
        return _folded(ordered, ends, last)

    def over(self, base: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The merged cells, sorted by key, without removed records.

        Args:
            base: cells of the base file, sorted by key; a key is in one batch only.
        """
        keys, start = self.cells["key"], 0
        for batch in base:
            if not batch.num_rows:
                continue
            greatest = batch["key"][-1].as_py()
            end = bisect.bisect_right(range(len(keys)), greatest, start, key=lambda place: keys[place].as_py())
            yield from self._merged(batch, start, end)
            start = end
        yield from self._merged(NO_CELLS, start, len(keys))

    def _merged(self, batch: pa.RecordBatch, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """A batch of the base file with the keys in a range of this overlay."""
        if start == end:
            if batch.num_rows:
                yield batch
            return
        cells = self.cells.slice(start, end - start)
        places = pc.index_in(cells["key"], value_set=batch["key"])
        values = self._values(cells, batch, places, start)
        untouched = batch.filter(pc.invert(pc.is_in(batch["key"], value_set=cells["key"])))
        found = pa.record_batch([cells["key"], values], schema=CELLS)
        found = found.filter(pc.greater(pc.binary_length(values), 0))
        both = concatenated([untouched, found])
        if both.num_rows:
            yield both.take(pa.array(order_of(both["key"])))

    def _values(self, cells: pa.RecordBatch, batch: pa.RecordBatch, places: pa.Array, start: int) -> pa.Array:
        """The values of cells, merged with those of the base file where both count."""
        hides = self.hides_base[start : start + cells.num_rows]
        shared = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False) & ~hides)
        if not len(shared):
            return cells["value"]
        values = cells["value"].to_pylist()
        for place in shared.tolist():
            older = batch["value"][places[place].as_py()].as_py()
            values[place] = _encoded(merged(decode_record(older), decode_record(values[place])))
        return pa.array(values, pa.binary())


def _run_ends(keys: pa.Array) -> NDArray[np.intp]:
    """Where runs of equal keys end: the last place of each."""
    if not len(keys):
        return np.empty(0, np.intp)
    changes = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return np.append(np.flatnonzero(changes), len(keys) - 1)


def _folded(ordered: pa.RecordBatch, ends: NDArray[np.intp], last: pa.RecordBatch) -> Overlay:
    """Merge the records of each key; only keys with several are decoded."""
    values = last["value"].to_pylist()
    hides = np.array([not value for value in values], bool)
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.intp)
    for run in np.flatnonzero(ends > starts).tolist():
        changes = ordered["value"].slice(int(starts[run]), int(ends[run] - starts[run] + 1)).to_pylist()
        values[run], hides[run] = _fold(changes)
    return Overlay(pa.record_batch([last["key"], pa.array(values, pa.binary())], schema=CELLS), hides)


def _fold(changes: Sequence[bytes]) -> tuple[bytes, bool]:
    """The value that stands for the changes of one key, and whether it hides what came before them."""
    record: MetadataRecord | None = None
    hides = False
    for change in changes:
        if not change:
            record, hides = None, True
            continue
        newer = decode_record(change)
        hides |= isinstance(newer, ColumnStatistics) and (newer.is_tight or newer.is_deleted)
        record = merged(record, newer)
    value = b"" if record is None else _encoded(record)
    return value, hides or not value


def _encoded(record: MetadataRecord) -> bytes:
    """The value of a merged record; empty where it says nothing, so that readers do not know the key."""
    if isinstance(record, ColumnStatistics) and (record.is_unknown or record.is_deleted):
        return b""
    return encode_record(record)
