"""Sorts cells of file groups of the metadata table, more of them than memory holds.

Cells are kept until they take a bounded amount of memory. Then those of each file group are sorted, and written to a
temporary file of this host: a run. The runs of a file group are merged batch by batch.
"""

from __future__ import annotations

import bisect
import posixpath
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from rli.hudi.hfile.cells import CELLS, concatenated
from rli.hudi.hfile.key_order import order_of

_MOST_BYTES: Final = 64 << 20
_ROWS_OF_BATCH: Final = 8_192


class CellSorter:
    """Takes cells in any order and gives those of each file group in the order of their keys.

    Use it in a ``with`` statement, which removes the temporary files at its end.

    Args:
        most_bytes: of cells that are kept in memory.

    Example:
        >>> with CellSorter() as sorter:
        ...     sorter.add("g1", pa.record_batch([[b"b", b"a"], [b"1", b"2"]], schema=CELLS))
        ...     [batch["key"].to_pylist() for batch in sorter.sorted("g1")]
        [[b'a', b'b']]
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._bytes = 0
        self._runs: dict[str, list[str]] = defaultdict(list)
        self._files = 0
        self._folder = tempfile.TemporaryDirectory(prefix="rli-metadata-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    @property
    def file_ids(self) -> list[str]:
        """The file groups that have cells, ordered."""
        return sorted({*self._held, *self._runs})

    def add(self, file_id: str, cells: pa.RecordBatch) -> None:
        """Take cells of a file group.

        Args:
            file_id: of the file group.
            cells: of ``CELLS``, in any order.
        """
        if not cells.num_rows:
            return
        self._held[file_id].append(cells)
        self._bytes += cells.get_total_buffer_size()
        if self._bytes > self._most_bytes:
            self._spill()

    def sorted(self, file_id: str) -> Iterator[pa.RecordBatch]:
        """The cells of a file group in the order of their keys, batches of ``CELLS``; none if it has no cells."""
        runs = [_read(path) for path in self._runs.get(file_id, ())]
        held = self._held.get(file_id)
        return _merged([*runs, iter(_batches(_in_order(held)))] if held else runs)

    def _spill(self) -> None:
        for file_id, batches in self._held.items():
            path = posixpath.join(self._folder.name, str(self._files))
            self._files += 1
            with pa.ipc.new_file(path, CELLS) as sink:
                for batch in _batches(_in_order(batches)):
                    sink.write_batch(batch)
            self._runs[file_id].append(path)
        self._held.clear()
        self._bytes = 0


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    cells = concatenated(batches)
    return cells.take(pa.array(order_of(cells["key"])))


def _batches(cells: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, cells.num_rows, _ROWS_OF_BATCH):
        yield cells.slice(start, _ROWS_OF_BATCH)


def _read(path: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as source, pa.ipc.open_file(source) as run:
        for number in range(run.num_record_batches):
            yield run.get_batch(number)


def _merged(runs: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The cells of sorted runs in the order of their keys; memory holds a batch of each run."""
    heads = [(batch, run) for run in runs if (batch := next(run, None)) is not None]
    while heads:
        # Up to the least of the last keys, no run has a key that is not in memory.
        bound = min(batch["key"][-1].as_py() for batch, _ in heads)
        ready, left = [], []
        for batch, run in heads:
            end = _count_up_to(batch["key"], bound)
            ready.append(batch.slice(0, end))
            rest = batch.slice(end) if end < batch.num_rows else next(run, None)
            if rest is not None:
                left.append((rest, run))
        heads = left
        yield _in_order(ready)


def _count_up_to(keys: pa.Array, bound: bytes) -> int:
    return bisect.bisect_right(range(len(keys)), bound, key=lambda place: keys[place].as_py())
