"""Reads one file group of the metadata table: its base file and its log files, merged."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.metadata.cells import in_own_form
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.log_changes import LogChanges
from rli.hudi.metadata.overlay import Overlay
from rli.hudi.metadata.sought import Sought
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.hudi.metadata.written_logs import WrittenLogs
from rli.storage import Storage, StoredFile

_READ_WHOLE: Final = 4 << 20
"""Files of up to so many bytes are read by one request."""

_READ_WHOLE_AT_ONCE: Final = 8 << 20
"""The same of object stores, where a request takes as long as some megabytes."""

_READ_WHOLE_FOR_MANY: Final = 32 << 20
"""The same of object stores for all keys or many."""

_BYTES_PER_KEY: Final = 1024
"""Of a file of which many keys are sought."""

_SCHEMA: Final = "schema"


class GroupReader:
    """The merged cells of a file group.

    Args:
        storage: of the table.
        group: the file group.
        instants: tell which blocks of log files count.
        written: tells damage of log files from leftovers of dead writers.
        merges: records of one key are merged; else the newest stands.
    """

    def __init__(
        self, storage: Storage, group: GroupSlice, instants: ValidInstants, written: WrittenLogs, *, merges: bool
    ) -> None:
        self._storage = storage
        self._group = group
        self._instants = instants
        self._written = written
        self._merges = merges

    def scan(self) -> Iterator[pa.RecordBatch]:
        """All cells in order, without removed records: batches of ``CELLS``.

        Memory holds the log files' cells, and a few blocks of the base file, or a base file of up to 32 MiB.

        Raises:
            CorruptTableError: a file is damaged.
            InstantNotFoundError: a file has gone.
            UnsupportedTableError: a log file has a block that rli does not read.
        """
        overlay = self._overlay(None)
        base = self._group.base
        if base is None:
            yield from overlay.over([])
            return
        with self._open(base, None) as source:
            reader = HFileReader(source, base.size)
            schema = _schema_of(reader, base)
            yield from overlay.over(in_own_form(cells, schema) for cells in reader.cells())

    def lookup(self, sought: Sought) -> Iterator[pa.RecordBatch]:
        """The cells of some keys, in order, without removed records; raises what ``scan`` raises."""
        overlay = self._overlay(sought)
        yield from overlay.over([] if self._group.base is None else self._found(self._group.base, sought))

    def _overlay(self, sought: Sought | None) -> Overlay:
        changes = LogChanges(self._instants, self._written, sought)
        for file in self._group.changed_logs:
            with self._open(file, sought) as source:
                changes.read(source, file)
        return Overlay.of(changes.batches, merges=self._merges)

    def _found(self, base: StoredFile, sought: Sought) -> Iterator[pa.RecordBatch]:
        with self._open(base, sought) as source:
            reader = HFileReader(source, base.size)
            schema = _schema_of(reader, base)
            for cells in sought.cells(reader):
                yield in_own_form(cells, schema)

    def _content(self, file: StoredFile) -> bytes:
        content = self._storage.read_bytes(file.path)
        if content is None:
            raise _gone(file)
        return content

    def _open(self, file: StoredFile, sought: Sought | None) -> Any:
        """The file, opened to read some keys, or all; pyarrow's own type has no annotations."""
        are_many = sought is None or len(sought) * _BYTES_PER_KEY >= file.size
        of_store = _READ_WHOLE_FOR_MANY if are_many else _READ_WHOLE_AT_ONCE
        if file.size <= (_READ_WHOLE if self._storage.is_local else of_store):
            return io.BytesIO(self._content(file))
        try:
            return self._storage.filesystem.open_input_file(self._storage.full_path(file.path))
        except FileNotFoundError as error:
            raise _gone(file) from error


def _schema_of(reader: HFileReader, file: StoredFile) -> str:
    content = reader.info.get(_SCHEMA)
    if content is None:
        raise CorruptTableError(
            f"a base file of the metadata table has no schema: file={file.path}",
            remedy="drop this partition of the metadata table and let it be built anew",
        )
    return str(content, "utf-8", "replace")


def _gone(file: StoredFile) -> InstantNotFoundError:
    return InstantNotFoundError(
        f"a file of the metadata table has gone, others cleaned it away: file={file.path}",
        remedy="load the table again",
    )
