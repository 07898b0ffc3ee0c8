"""The blocks of a slice's log files that count, in the order in which their records apply."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.file_names import LogFileName
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.reader import LogBlock, LogFileReader
from rli.hudi.log_file.rollback_block import undone_instant
from rli.view.file_slices import DataFile, SeenInstants

_DATA: Final = frozenset({BlockKind.AVRO, BlockKind.PARQUET, BlockKind.DELETE})
_PASSED_OVER: Final = frozenset({BlockKind.CDC})
"""Change data, for readers of changes; the records are in other blocks."""

_REMEDY: Final = "let Hudi compact the table, or read it with query='read_optimized' (--query read_optimized)"


@dataclass(frozen=True, slots=True)
class DataBlock:
    """Records, or keys of deleted records.

    Attributes:
        path: of the log file.
        instant: that wrote the block.
        block: header and content.
    """

    path: str
    instant: str
    block: LogBlock

    @property
    def identity(self) -> tuple[str, int, int, str]:
        """Identifies the block in its table: no other block has ever stood at this place with this size and instant."""
        return self.path, self.block.place, self.block.size, self.instant

    @property
    def replaced(self) -> frozenset[str]:
        """The instants whose blocks a log compaction has put together in this block."""
        listed = self.block.headers.get(Header.COMPACTED_INSTANTS, "")
        return frozenset(instant for instant in listed.split(",") if instant)


def data_blocks(files: Iterable[tuple[DataFile, BinaryIO]], seen: SeenInstants | None) -> list[DataBlock]:
    """The blocks of log files that count, in the order in which their records apply.

    Args:
        files: of one slice, the oldest first; they stay open.
        seen: the instants whose blocks count; None if all do, since each file belongs to one completed commit.

    Raises:
        CorruptTableError: a file of a completed commit is damaged.
        UnsupportedTableError: a block is of a kind that rli does not merge.
    """
    found: list[DataBlock] = []
    for file, source in files:
        for block in LogFileReader(source, file.size).blocks():
            if block.kind is BlockKind.COMMAND:
                # A rollback undoes the blocks before it, also those in earlier files.
                undone = undone_instant(block)
                found = [one for one in found if one.instant != undone]
            elif block.kind is BlockKind.CORRUPT:
                _require_dead(file, seen)
            else:
                instant = block.header(Header.INSTANT)
                if seen is None:
                    _require_own(instant, file)
                if (seen is None or seen.has(instant)) and block.kind not in _PASSED_OVER:
                    found.append(DataBlock(file.path, instant, _known(block, file)))
    return list(_without_replaced(found))


def _require_dead(file: DataFile, seen: SeenInstants | None) -> None:
    """Pass bytes that are no block, if a dead writer may have left them: in a file that several writers append to."""
    if seen is None:
        raise CorruptTableError(
            f"a log file of a completed commit is damaged: file={file.path}",
            remedy="restore it from a backup, or go back to before its commit with Hudi",
        )


def _require_own(instant: str, file: DataFile) -> None:
    """Pass a block of the commit in the file's name; before an upgrade to table version 8, several commits wrote to a file."""
    if LogFileName.parse(posixpath.basename(file.path)).instant != instant:
        raise UnsupportedTableError(
            f"a log file has blocks of other commits than its own, as before table version 8: file={file.path} "
            f"instant={instant}",
            remedy="read a later state, let Hudi compact the table, or read it with query='read_optimized'",
        )


def _known(block: LogBlock, file: DataFile) -> LogBlock:
    if block.kind not in _DATA:
        raise UnsupportedTableError(
            f"a log file has a block of a kind that rli does not merge: file={file.path} kind={block.kind.name}",
            remedy=_REMEDY,
        )
    if block.headers.get(Header.IS_PARTIAL, "").lower() == "true":
        raise UnsupportedTableError(
            f"a log file has updates of single columns, rli does not merge that: file={file.path}", remedy=_REMEDY
        )
    return block


def _without_replaced(blocks: Sequence[DataBlock]) -> Iterator[DataBlock]:
    """The blocks without those that a log compaction has joined; the blocks of the log compaction take the place of the last of them."""
    # Of two log compactions, the later one replaces the earlier one, too.
    replaced = {instant: one.instant for one in blocks for instant in one.replaced}
    if not replaced:
        yield from blocks
        return
    last = {_final(one.instant, replaced): place for place, one in enumerate(blocks) if one.instant in replaced}
    for place, one in enumerate(blocks):
        if one.instant in replaced:
            if last[_final(one.instant, replaced)] == place:
                yield from (other for other in blocks if other.instant == _final(one.instant, replaced))
        elif one.instant not in last:
            yield one


def _final(instant: str, replaced: dict[str, str]) -> str:
    """The log compaction that stands for an instant in the end."""
    passed = {instant}
    while instant in replaced and replaced[instant] not in passed:
        instant = replaced[instant]
        passed.add(instant)
    return instant
