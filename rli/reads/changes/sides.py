"""One file group before a commit or after it, reduced to the keys that may have changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY
from rli.reads.changes.planning import GroupDelta, no_keys
from rli.view.file_slices import FileSlice
from rli.view.merging.log_keys import keys_of_logs
from rli.view.snapshot import Snapshot

_WRITTEN_KEYS = pa.schema([(RECORD_KEY, pa.string()), (COMMIT_TIME, pa.string())])


@dataclass(frozen=True)
class Side:
    """The records of a file slice.

    Attributes:
        snapshot: the table.
        file_slice: None if there is none, and so no record.
        among: distinct keys of the records that matter; None for all. Of few keys, little more than their records is read.
    """

    snapshot: Snapshot
    file_slice: FileSlice | None
    among: pa.Array | None

    def keys(self) -> pa.Array:
        """The record keys, shape (n,)."""
        return self.written_keys()[0]

    def written_keys(self) -> tuple[pa.Array, pa.Array]:
        """The record keys, and the commits that have written the records; each of shape (n,)."""
        parts = [] if self.file_slice is None else list(self._written(self.file_slice))
        return pa.concat_arrays([no_keys(), *(keys for keys, _ in parts)]), pa.concat_arrays(
            [no_keys(), *(times for _, times in parts)]
        )

    def _written(self, file_slice: FileSlice) -> Iterator[tuple[pa.Array, pa.Array]]:
        if self.among is None:
            yield from self.snapshot.written_keys(file_slice)
            return
        with self.snapshot.reader(file_slice) as reader:
            columns = self.snapshot.key_columns(reader.schema)
            for found in reader.find(self.among, columns, _WRITTEN_KEYS):
                yield found.keys, found.records.column(COMMIT_TIME).combine_chunks()

    def records(
        self, keys: pa.Array, positions: NDArray[np.intp], schema: pa.Schema
    ) -> Iterator[tuple[pa.Table, NDArray[np.intp]]]:
        """Some of the records, in batches made to fit a schema, each with the positions of its records.

        Args:
            keys: what ``keys`` gives.
            positions: of the wanted records among them, in rising order.
            schema: of the records.
        """
        if self.file_slice is None or not len(positions):
            return
        with self.snapshot.reader(self.file_slice) as reader:
            if self.among is None:
                for part in reader.records_at(positions, schema):
                    yield part, positions[: len(part)]
                    positions = positions[len(part) :]
                return
            wanted = keys.take(pa.array(positions))
            columns = self.snapshot.key_columns(reader.schema)
            for found in reader.find(wanted.unique(), columns, schema):
                yield found.records, positions[pc.index_in(found.keys, value_set=wanted).to_numpy()]


def sides(snapshot: Snapshot, delta: GroupDelta) -> tuple[Side, Side]:
    """A file group before a commit, and after it."""
    among = keys_of_logs(snapshot.table.storage, delta.appended) if delta.appended else None
    if among is not None:
        among = among.unique()
    return Side(snapshot, delta.before, among), Side(snapshot, delta.after, among)
