"""What the log files of a file group say, block by block, as cells."""

from __future__ import annotations

from collections.abc import Container
from typing import BinaryIO, Final

import pyarrow as pa

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.file_names import LogFileName
from rli.hudi.hfile.cells import concatenated, removals
from rli.hudi.log_file.delete_records import RECORD_KEY, deleted_records
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.hfile_block import hfile_of
from rli.hudi.log_file.reader import LogBlock, LogFileReader
from rli.hudi.log_file.rollback_block import undone_instant
from rli.hudi.metadata.cells import in_own_form
from rli.hudi.metadata.sought import Sought
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.hudi.metadata.written_logs import WrittenLogs
from rli.storage import StoredFile

_REMEDY: Final = "let Hudi compact the metadata table, or drop it and let it be built anew"


class LogChanges:
    """Collects the valid changes of the log files of one file group, the oldest first.

    Args:
        instants: tell which blocks count.
        written: tells damage from leftovers of dead writers.
        sought: only changes of these keys; None for all.

    Attributes:
        has_rollback: a block has taken back others before it, perhaps in files that were not read here.
    """

    def __init__(self, instants: ValidInstants, written: WrittenLogs, sought: Sought | None) -> None:
        self._instants = instants
        self._written = written
        self._sought = sought
        self.has_rollback = False
        self._found: list[tuple[str, pa.RecordBatch]] = []

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """The changes: batches of ``CELLS``, in which an empty value stands for a removed record."""
        return [cells for _, cells in self._found]

    def keys_of(self, instants: Container[str]) -> pa.Array:
        """The keys that some instants changed, as bytes; a key may be there twice."""
        keys = [cells["key"] for instant, cells in self._found if instant in instants]
        return pa.concat_arrays([pa.array([], pa.binary()), *keys])

    def read(self, source: BinaryIO, file: StoredFile) -> None:
        """Add the changes of the next log file.

        Args:
            source: the file, opened for reading.
            file: its path and size.

        Raises:
            CorruptTableError: a block is damaged.
            UnsupportedTableError: a block is of a kind that the metadata table has not, or was made by log compaction.
        """
        for block in LogFileReader(source, file.size).blocks():
            if block.kind is BlockKind.COMMAND:
                # A rollback takes back what came before it, in files before this one, too.
                self.has_rollback, undone = True, undone_instant(block)
                self._found = [change for change in self._found if change[0] != undone]
            elif block.kind is BlockKind.CORRUPT:
                self._require_dead(file, block.place)
            elif self._instants.is_valid(block.header(Header.INSTANT)):
                self._found.append((block.header(Header.INSTANT), self._cells(block, file)))

    def _require_dead(self, file: StoredFile, place: int) -> None:
        """Pass over what a dead writer left. Where a file belongs to one commit, that commit must not have completed."""
        if self._instants.name_log_files:
            is_committed = self._instants.is_valid(LogFileName.parse(file.name).instant)
        else:
            is_committed = self._written.has(file, place)
        if is_committed:
            raise CorruptTableError(f"a log file of a completed commit is damaged: file={file.path}", remedy=_REMEDY)

    def _cells(self, block: LogBlock, file: StoredFile) -> pa.RecordBatch:
        if Header.COMPACTED_INSTANTS in block.headers:
            raise UnsupportedTableError(
                f"the metadata table was compacted within its log files, rli does not read that: file={file.path}",
                remedy="let Hudi compact the metadata table, with hoodie.metadata.log.compaction.enable=false",
            )
        if block.kind is BlockKind.HFILE:
            return self._records(block)
        if block.kind is BlockKind.DELETE:
            return self._removals(block)
        raise UnsupportedTableError(
            f"the metadata table has a block of a kind that rli does not read: file={file.path} kind={block.kind.name}",
            remedy=_REMEDY,
        )

    def _records(self, block: LogBlock) -> pa.RecordBatch:
        reader = hfile_of(block)
        cells = concatenated(list(reader.cells() if self._sought is None else self._sought.cells(reader)))
        return in_own_form(cells, block.header(Header.SCHEMA))

    def _removals(self, block: LogBlock) -> pa.RecordBatch:
        keys = [deleted[RECORD_KEY].cast(pa.binary()) for deleted in deleted_records(block)]
        if self._sought is not None:
            keys = [found.filter(self._sought.are_among(found)) for found in keys]
        return removals(pa.concat_arrays([pa.array([], pa.binary()), *keys]))
