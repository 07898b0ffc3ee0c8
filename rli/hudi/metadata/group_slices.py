"""The newest file slice of each file group in a partition of the metadata table, from the names of its files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from rli.errors import UnsupportedTableError
from rli.hudi.file_names import HFILE, BaseFileName, LogFileName
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.storage import StoredFile

_CHECKSUM = ".crc"
_LOG = ".log."
_KEPT_SLICES = 2


@dataclass(frozen=True, slots=True)
class GroupSlice:
    """What stands for a file group now.

    Attributes:
        file_id: the file group.
        base: the base file; None if there is only what log files hold.
        base_instant: that wrote the base file; "" without one.
        logs: the log files over it, in the order in which their records apply.
        names: the parts of their names.
    """

    file_id: str
    base: StoredFile | None
    base_instant: str
    logs: tuple[StoredFile, ...]
    names: tuple[LogFileName, ...]

    @property
    def changed_logs(self) -> tuple[StoredFile, ...]:
        """The log files with a change: the birth of a partition leaves a log file without changes in each file group."""
        return tuple(file for file, name in zip(self.logs, self.names, strict=True) if file.size != _unchanged(name))


@cache
def _bytes_without_change(digits: int) -> int:
    return len(delete_block("0" * digits, NO_DELETES))


def _unchanged(name: LogFileName) -> int:
    """The size of a log file whose only block has the instant in the file's name, and deletes nothing.

    A block that changes something is longer: it has records, or names a second instant to roll back.
    """
    return _bytes_without_change(len(name.instant))


def group_slices(
    files: Iterable[StoredFile], instants: ValidInstants, *, by_completion: bool
) -> tuple[GroupSlice, ...]:
    """The newest slices of a partition, ordered by file id; one for each file group that has any file.

    Args:
        files: in the partition's folder.
        instants: tells which files count.
        by_completion: log files belong to the newest base file at their completion (table version 8 and later); else
            their names carry the instant of the base file.

    Raises:
        CorruptTableError: a file has no name of a file of the metadata table.
        UnsupportedTableError: a log file has a form that versions up to 9 do not have.
    """
    bases: dict[str, list[tuple[str, StoredFile]]] = defaultdict(list)
    logs: dict[str, list[tuple[LogFileName, StoredFile]]] = defaultdict(list)
    for file in files:
        match _parsed(file):
            case BaseFileName(file_id, _, instant):
                bases[file_id].append((instant, file))
            case LogFileName(file_id) as name:
                logs[file_id].append((name, file))
            case None:
                pass
    return tuple(
        _slice(file_id, bases[file_id], logs[file_id], instants, by_completion=by_completion)
        for file_id in sorted({*bases, *logs})
    )


def superseded_files(
    files: Iterable[StoredFile], instants: ValidInstants, *, by_completion: bool
) -> tuple[StoredFile, ...]:
    """The files of older slices; the newest two of each file group stay, for readers that began before a compaction.

    Args:
        files: in the partition's folder.
        instants: as for ``group_slices``.
        by_completion: as for ``group_slices``.

    Raises:
        CorruptTableError: a file has no name of a file of the metadata table.
        UnsupportedTableError: a log file has a form that versions up to 9 do not have.
    """
    parsed = [(name, file) for file in files if (name := _parsed(file)) is not None]
    bases: dict[str, list[str]] = defaultdict(list)
    for name, _ in parsed:
        if isinstance(name, BaseFileName) and instants.is_committed(name.instant):
            bases[name.file_id].append(name.instant)
    oldest = {file_id: sorted(found)[-_KEPT_SLICES] for file_id, found in bases.items() if len(found) > _KEPT_SLICES}
    return tuple(
        file
        for name, file in parsed
        if name.file_id in oldest and _is_before(name, oldest[name.file_id], instants, by_completion=by_completion)
    )


def _is_before(name: BaseFileName | LogFileName, instant: str, instants: ValidInstants, *, by_completion: bool) -> bool:
    """True if a file was part of slices before a base file of this instant alone."""
    if isinstance(name, BaseFileName):
        return name.instant < instant
    if by_completion:
        return instants.is_committed(name.instant) and instants.completion_time(name.instant) < instant
    return name.instant < instant


def _slice(
    file_id: str,
    bases: list[tuple[str, StoredFile]],
    logs: list[tuple[LogFileName, StoredFile]],
    instants: ValidInstants,
    *,
    by_completion: bool,
) -> GroupSlice:
    visible = [base for base in bases if instants.is_committed(base[0])]
    base_instant, base = max(visible, key=lambda found: found[0], default=("", None))
    kept = sorted(
        (found for found in logs if _is_over(found[0].instant, base_instant, instants, by_completion=by_completion)),
        key=lambda found: found[0],
    )
    names, files = tuple(name for name, _ in kept), tuple(file for _, file in kept)
    return GroupSlice(file_id, base, base_instant, files, names)


def _is_over(instant: str, base_instant: str, instants: ValidInstants, *, by_completion: bool) -> bool:
    """True if a log file with this instant in its name comes after a base file."""
    if by_completion:
        return instants.is_committed(instant) and instants.completion_time(instant) >= base_instant
    # A compaction that is pending has log files of its own; they count over the base file before it, too.
    return instant >= base_instant


def _parsed(file: StoredFile) -> BaseFileName | LogFileName | None:
    name = file.name
    if name.startswith("."):
        return LogFileName.parse(name) if _LOG in name and not name.endswith(_CHECKSUM) else None
    if _LOG in name:
        raise UnsupportedTableError(
            f"the metadata table holds a log file in a form that versions up to 9 do not have: file={file.path}",
            remedy="downgrade the table to version 9 with Hudi's command line (downgrade table)",
        )
    return BaseFileName.parse(name, HFILE)
