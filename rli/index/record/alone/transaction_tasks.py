"""The part of a transaction that tasks of an engine do, in other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.key_arrays import as_key_array
from rli.errors import InvalidKeyError, SchemaError
from rli.index.record.alone import staging
from rli.index.record.alone.changed_keys import ChangedKeys
from rli.index.record.alone.prepared import require_not_held
from rli.index.record.entries.stored_entries import StoredEntries
from rli.locations import LocationUpdate
from rli.model import FileGroupId


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What one attempt of a task has staged. Picklable.

    Attributes:
        chunk_sizes: bytes of each chunk, by its name.
        placed, deleted: record keys.
        file_groups: that keys are placed in.
    """

    chunk_sizes: Mapping[str, int]
    placed: int
    deleted: int
    file_groups: frozenset[FileGroupId]


@dataclass(frozen=True, slots=True)
class TransactionTasks:
    """A transaction as tasks see it; ``OpenTransaction.for_tasks`` makes it. Picklable.

    A task stages under names that no other attempt has. The transaction takes the parts of those attempts that the engine
    took; the others are removed unread. So attempts that are lost, repeated or raced stage nothing twice.
    """

    index: StoredEntries
    snapshot: int
    writer: str

    def tag(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Table:
        """See ``IndexTransaction.tag``."""
        return tag_as_of(self.index, self.snapshot, self.writer, as_key_array(record_keys))

    def stage(self, locations: pa.Table) -> StagedPart:
        """See ``IndexTransaction.stage``; no other task stages any of the keys."""
        return self._staged(placing(locations), is_deleted=False)

    def stage_deletes(self, record_keys: pa.ChunkedArray) -> StagedPart:
        """See ``IndexTransaction.stage_deletes``; no other task stages any of the keys."""
        return self._staged(LocationUpdate.removing(as_key_array(record_keys).unique()), is_deleted=True)

    def _staged(self, changes: LocationUpdate, *, is_deleted: bool) -> StagedPart:
        require_distinct(changes.record_keys)
        sizes = staging.write_chunks(self.index, self.writer, changes, prefix=f"{uuid4().hex}-")
        keys = len(changes.record_keys)
        counts = (0, keys) if is_deleted else (keys, 0)
        return StagedPart(sizes, *counts, frozenset(changes.file_groups()))


def tag_as_of(index: StoredEntries, snapshot: int, writer: str, record_keys: pa.Array) -> pa.Table:
    """Where each record key (string array, shape (n,)) lives as of a snapshot; see ``IndexTransaction.tag``."""
    entries = index.get(record_keys, snapshot)
    changed = ChangedKeys(index, snapshot)
    changed.add(record_keys, entries)
    changed.require_none()
    require_not_held(index, lambda held: held.filter(pc.is_in(held, value_set=record_keys)), writer)
    return index.locations(record_keys, entries)


def placing(locations: pa.Table) -> LocationUpdate:
    """The changes that a table of locations asks for.

    Raises:
        SchemaError: a column is missing.
        InvalidKeyError: a value is null or no string.
    """
    return LocationUpdate(*(_string_column(locations, name) for name in ("record_key", "partition_path", "file_id")))


def require_distinct(record_keys: pa.Array) -> None:
    """Raise ``InvalidKeyError`` if a key occurs twice."""
    if pc.count_distinct(record_keys).as_py() == len(record_keys):
        return
    counts = pc.value_counts(record_keys)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
    raise InvalidKeyError(f"a record key occurs more than once: key={repeated}", remedy="stage each key once")


def _string_column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        raise SchemaError(
            f"a column is missing: column={name} found={table.column_names}", remedy="stage all three columns"
        )
    column = table.column(name)
    try:
        return as_key_array(column)
    except InvalidKeyError as error:
        raise InvalidKeyError(f"column {name}: {error.problem}", remedy=error.remedy) from error
