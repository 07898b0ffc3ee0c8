"""Pages of checkpoints, version 1: the names that a run of log records introduces, as Arrow columns of a single row.

A page is a control record named by its content: ``page/``, its first sequence in ten digits, ``-``, and a digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyarrow import ipc

from rli.index.record.log.names import Names
from rli.index.record.log.record import LogRecord

PAGES: Final = "page/"
"""Begins the names of pages."""

_VERSION: Final = 1

_STRINGS: Final = pa.list_(pa.string())
_SCHEMA: Final = pa.schema(
    [
        ("located_at", _STRINGS),
        ("partition_paths", _STRINGS),
        ("file_ids", _STRINGS),
        ("instants", _STRINGS),
        ("sequences", pa.list_(pa.uint32())),
        ("undone", _STRINGS),
    ],
    metadata={"version": str(_VERSION)},
)


@dataclass(frozen=True)
class Page:
    """The content of a page.

    Attributes:
        names: that its records introduce.
        brought: instants whose changes its records bring, and the first sequences of these records.
        undone: instants whose changes its records take back.
    """

    names: Names
    brought: tuple[pa.StringArray, pa.Array]
    undone: pa.StringArray

    @cached_property
    def sequences(self) -> dict[str, int]:
        """For each instant that its records bring, the first sequence of the record."""
        instants, sequences = self.brought
        return dict(zip(instants.to_pylist(), sequences.to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class PageEntry:
    """What a checkpoint says of a page.

    Attributes:
        name: of its control record.
        first_sequence, first_group: the first numbers that it explains.
        least, greatest: the instants that it knows lie between these; empty where it knows none.
    """

    name: str
    first_sequence: int
    first_group: int
    least: str
    greatest: str


def page_of(records: Sequence[LogRecord]) -> tuple[PageEntry, bytes]:
    """The page of some records: what a checkpoint says of it, and its content."""
    content = page_bytes(records)
    name = f"{PAGES}{records[0].first_sequence:010d}-{digest(content)}"
    instants = [instant for record in records for instant in record.instants]
    bounds = min(instants, default=""), max(instants, default="")
    return PageEntry(name, records[0].first_sequence, records[0].first_file_group, *bounds), content


def page_bytes(records: Sequence[LogRecord]) -> bytes:
    """The content of the page of some records."""
    names = Names.of(records)
    brought = [(instant, record.first_sequence) for record in records for instant in record.instants]
    lists: list[Any] = [
        names.instants,
        names.partition_paths,
        names.file_ids,
        [instant for instant, _ in brought],
        [sequence for _, sequence in brought],
        [instant for record in records for instant in record.undoes],
    ]
    columns = [
        pa.ListArray.from_arrays([0, len(values)], pa.array(values, field.type.value_type))
        for values, field in zip(lists, _SCHEMA, strict=True)
    ]
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, _SCHEMA) as stream:
        stream.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return bytes(sink.getvalue().to_pybytes())


def parse_page(content: bytes) -> Page | None:
    """The page that was written; None for other bytes."""
    try:
        batch = ipc.open_stream(content).read_next_batch()
        # Arrow reads what was forged wherever its offsets lead.
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration):
        return None
    if (
        not batch.schema.equals(_SCHEMA)
        or batch.num_rows != 1
        or any(column.values.null_count for column in batch.columns)
    ):
        return None
    located_at, paths, file_ids, instants, sequences, undone = (column.values for column in batch.columns)
    return Page(Names(located_at, paths, file_ids), (instants, sequences), undone)


def digest(content: bytes) -> str:
    """Tells content from every other content."""
    return hashlib.sha256(content).hexdigest()[:32]
