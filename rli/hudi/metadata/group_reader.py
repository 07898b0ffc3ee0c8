"""Reads one file group of the metadata table: its base file and its log files, merged."""

from __future__ import annotations

import io
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.metadata.cells import in_own_form
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.log_changes import LogChanges
from rli.hudi.metadata.overlay import Overlay
from rli.hudi.metadata.sought import Sought, SoughtKeys
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.hudi.metadata.written_logs import WrittenLogs
from rli.storage import Storage, StoredFile

_READ_WHOLE: Final = 4 << 20
"""Files of up to so many bytes are read by one request."""

_READ_WHOLE_AT_ONCE: Final = 8 << 20
"""The same of object stores, where a request takes as long as some megabytes."""

_READ_WHOLE_TO_TEST: Final = 1 << 20
"""Bytes of the files of a file group that are read as a whole to find damage."""

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
        yield from self._overlay(None).over(self._of_base(None))

    def require_readable(self) -> None:
        """Pass the file group unless a file is damaged: all of small ones is read, of others their heads, ends and indexes.

        Raises what ``scan`` raises.
        """
        base = [] if self._group.base is None else [self._group.base]
        is_small = sum(file.size for file in (*base, *self._group.changed_logs)) <= _READ_WHOLE_TO_TEST
        for _ in self.scan() if is_small else self.lookup(SoughtKeys(pa.array([], pa.binary()))):
            pass

    def lookup(self, sought: Sought) -> Iterator[pa.RecordBatch]:
        """The cells of some keys, in order, without removed records; raises what ``scan`` raises."""
        yield from self._overlay(sought).over(self._of_base(sought))

    def keys_changed_by(self, instants: Container[str]) -> pa.Array:
        """The keys that some instants changed by log files, as bytes; raises what ``scan`` raises."""
        return self._changes(None).keys_of(instants)

    def _overlay(self, sought: Sought | None) -> Overlay:
        if isinstance(sought, SoughtKeys) and len(sought) and not self._merges:
            newest = self._newest(sought)
            if newest is not None:
                return newest
        return Overlay.of(self._changes(sought).batches, merges=self._merges)

    def _changes(self, sought: Sought | None) -> LogChanges:
        changes = LogChanges(self._instants, self._written, sought)
        for file in self._group.changed_logs:
            with _naming(file.path), self._open(file, sought) as source:
                changes.read(source, file)
        return changes

    def _newest(self, sought: SoughtKeys) -> Overlay | None:
        """As ``_overlay``, from the newest log file back until each key is found; None if a block takes back others before it.

        What older log files and the base file say of the keys does not count, where records are not merged.
        """
        found: list[pa.RecordBatch] = []
        for file in reversed(self._group.changed_logs):
            changes = LogChanges(self._instants, self._written, sought)
            with _naming(file.path), self._open(file, sought) as source:
                changes.read(source, file)
            if changes.has_rollback:
                return None
            found[:0] = changes.batches
            sought = sought.without([batch["key"] for batch in changes.batches])
            if not len(sought):
                break
        return Overlay.of(found, merges=False)

    def _of_base(self, sought: Sought | None) -> Iterator[pa.RecordBatch]:
        """The cells of the base file, if there is one: the sought ones, or all."""
        base = self._group.base
        if base is None:
            return
        with _naming(base.path), self._open(base, sought) as source:
            reader = HFileReader(source, base.size)
            schema = _schema_of(reader, base)
            for cells in reader.cells() if sought is None else sought.cells(reader):
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


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Let an error of damage in a file name the file."""
    try:
        yield
    except CorruptTableError as error:
        if path not in error.problem:
            error.with_problem(f"{error.problem} file={path}")
        raise


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
