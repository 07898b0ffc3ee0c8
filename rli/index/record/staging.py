"""Changes of a transaction on the index alone, kept in the store until they are all applied.

A transaction writes its changes in chunks, control records ``stage/<writer>/<number>``. Once its commit is in
the commit log, any process can apply the chunks; once they are applied, they are removed. Only those of the newest
small transactions stay a while longer, for others to check against (P29).

Chunks are applied from last to first: entries of one sequence do not replace each other, so what was staged last
for a key is what stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import ipc

from rli.errors import CorruptIndexError
from rli.locations import LocationUpdate
from rli.store.contract import Store


class ChunksGoneError(Exception):
    """Chunks of a transaction are not in the store any more."""


_PREFIX: Final = "stage/"
_ROWS_PER_CHUNK: Final = 100_000
_MOST_BYTES_KEPT: Final = 512 << 10
_SCHEMA: Final = pa.schema([("record_key", pa.string()), ("partition_path", pa.string()), ("file_id", pa.string())])


def write_chunks(store: Store, writer: str, first_number: int, changes: LocationUpdate) -> list[int]:
    """Keep changes in the store, in chunks numbered from ``first_number``; returns the bytes of each."""
    columns = [changes.record_keys, changes.partition_paths, changes.file_ids]
    batch = pa.record_batch(columns, schema=_SCHEMA)
    sizes: list[int] = []
    for start in range(0, batch.num_rows, _ROWS_PER_CHUNK):
        sink = pa.BufferOutputStream()
        options = ipc.IpcWriteOptions(compression="zstd")
        with ipc.new_stream(sink, _SCHEMA, options=options) as stream:
            stream.write_batch(batch.slice(start, _ROWS_PER_CHUNK))
        content = sink.getvalue().to_pybytes()
        store.compare_and_set(_name(writer, first_number + len(sizes)), None, content)
        sizes.append(len(content))
    return sizes


def may_stay(sizes: Sequence[int]) -> bool:
    """Whether the chunks of a transaction, given their bytes, are small enough to stay after they were applied."""
    return len(sizes) == 1 and sizes[0] <= _MOST_BYTES_KEPT


def read_chunks(store: Store, writer: str, count: int) -> Iterator[LocationUpdate]:
    """The changes of a transaction in the order in which they are to be applied, a chunk at a time.

    Raises:
        ChunksGoneError: a chunk is gone.
        CorruptIndexError: a chunk is damaged.
    """
    for number in reversed(range(count)):
        content = store.read_control(_name(writer, number))
        if content is None:
            raise ChunksGoneError
        try:
            table = ipc.open_stream(content).read_all().combine_chunks()
        except pa.ArrowInvalid as error:
            raise CorruptIndexError(
                f"a staged chunk is damaged: writer={writer} number={number}; bootstrap the index again"
            ) from error
        yield LocationUpdate(*(column.chunk(0) for column in table.columns))


def remove_chunks(store: Store, writer: str, count: int) -> None:
    """Remove the chunks of a transaction; may be repeated."""
    # The last chunk goes last: its presence means that the removal is unfinished.
    if not count or store.read_control(_name(writer, count - 1)) is None:
        return
    for number in range(count):
        remove(store, _name(writer, number))


def remove(store: Store, name: str) -> None:
    """Remove a chunk, by the name of its record."""
    store.compare_and_set(name, store.read_control(name), None)


def names_of(store: Store, token: str) -> list[str]:
    """The names of the chunks of all writers whose identities begin with a token."""
    return [name for name, _ in store.scan_control(f"{_PREFIX}{token}")]


def writer_of(name: str) -> str:
    """The writer of the chunk with this name."""
    return name.removeprefix(_PREFIX).partition("/")[0]


def _name(writer: str, number: int) -> str:
    return f"{_PREFIX}{writer}/{number:06d}"
