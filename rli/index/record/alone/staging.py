"""Changes of a transaction on the index alone, kept in the store until they are all applied.

A transaction writes its changes in chunks, control records ``stage/<writer>/<name>``. Once its commit is in
the commit log, any process can apply the chunks; once they are applied, they are removed. Only those of the newest
small transactions stay a while longer, for others to check against (P29).

Chunks of one process are numbered. Tasks of an engine write chunks under random names: of each task the transaction
takes the chunks of one attempt, and those of other attempts are removed unread.

Chunks are applied from last to first: entries of one sequence do not replace each other, so what was staged last
for a key is what stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import ipc

from rli.errors import CorruptIndexError
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.staged import numbered
from rli.locations import LocationUpdate
from rli.store.contract import Store


class ChunksGoneError(Exception):
    """Chunks of a transaction are not in the store any more."""


_PREFIX: Final = "stage/"
_SCHEMA: Final = pa.schema([("record_key", pa.string()), ("partition_path", pa.string()), ("file_id", pa.string())])


def write_chunks(
    index: StoredEntries, writer: str, changes: LocationUpdate, *, first: int = 0, prefix: str = ""
) -> dict[str, int]:
    """Keep changes in the store; returns the names of the chunks, and the bytes of each.

    Args:
        index: that the transaction changes.
        writer: identity of the transaction.
        changes: to keep.
        first: the number of the first chunk.
        prefix: begins the names; empty for chunks of the transaction's own process.
    """
    columns = [changes.record_keys, changes.partition_paths, changes.file_ids]
    batch = pa.record_batch(columns, schema=_SCHEMA)
    store, rows_per_chunk = index.store, index.limits.rows_per_chunk
    starts = range(0, batch.num_rows, rows_per_chunk)
    sizes: dict[str, int] = {}
    for start, number in zip(starts, numbered(len(starts), first), strict=True):
        sink = pa.BufferOutputStream()
        options = ipc.IpcWriteOptions(compression="zstd")
        with ipc.new_stream(sink, _SCHEMA, options=options) as stream:
            stream.write_batch(batch.slice(start, rows_per_chunk))
        content = sink.getvalue().to_pybytes()
        name = f"{prefix}{number}"
        if not store.compare_and_set(_name(writer, name), None, content):
            # An earlier call failed in the middle, and its caller may stage something else now.
            store.compare_and_set(_name(writer, name), store.read_control(_name(writer, name)), content)
        sizes[name] = len(content)
    return sizes


def may_stay(sizes: Sequence[int], limits: IndexLimits) -> bool:
    """Whether the chunks of a transaction, given their bytes, are small enough to stay after they were applied."""
    return len(sizes) == 1 and sizes[0] <= limits.bytes_kept


def read_chunks(store: Store, writer: str, names: Sequence[str]) -> Iterator[LocationUpdate]:
    """The changes of a transaction in the order in which they are to be applied, a chunk at a time.

    Raises:
        ChunksGoneError: a chunk is gone.
        CorruptIndexError: a chunk is damaged.
    """
    for name in reversed(names):
        content = store.read_control(_name(writer, name))
        if content is None:
            raise ChunksGoneError
        try:
            table = ipc.open_stream(content).read_all().combine_chunks()
        except pa.ArrowInvalid as error:
            raise CorruptIndexError(
                f"a staged chunk is damaged: writer={writer} name={name}", remedy="bootstrap the index again"
            ) from error
        yield LocationUpdate(*(column.chunk(0) for column in table.columns))


def remove_chunks(store: Store, writer: str, names: Sequence[str]) -> None:
    """Remove the chunks of a transaction; may be repeated."""
    # Delete the last chunk last: its presence means that cleanup is unfinished.
    if not names or store.read_control(_name(writer, names[-1])) is None:
        return
    for name in names:
        remove(store, _name(writer, name))


def remove_others(store: Store, writer: str, kept: Sequence[str]) -> None:
    """Remove the chunks of a transaction that it does not name: those of attempts that were given up."""
    for name in set(names_of(store, f"{writer}/")) - full_names(writer, kept):
        remove(store, name)


def remove(store: Store, name: str) -> None:
    """Remove a chunk, by the name of its record."""
    store.compare_and_set(name, store.read_control(name), None)


def names_of(store: Store, token: str) -> list[str]:
    """The names of the records of all chunks of writers whose identities begin with a token."""
    return [name for name, _ in store.scan_control(f"{_PREFIX}{token}")]


def full_names(writer: str, names: Sequence[str]) -> set[str]:
    """The names of the records of some chunks."""
    return {_name(writer, name) for name in names}


def writer_of(name: str) -> str:
    """The writer of the chunk whose record has this name."""
    return name.removeprefix(_PREFIX).partition("/")[0]


def _name(writer: str, name: str) -> str:
    return f"{_PREFIX}{writer}/{name}"
