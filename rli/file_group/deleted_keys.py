"""Deleted keys with the ordering values of their deletes: a record that is older than the delete of its key loses (P42).

A commit that deletes with ordering values keeps them in files of its own, which lie among the base files of the write
and become part of the table with them. A file counts if its commit is part of the table, and for the time that the table's
setting ``tombstones`` says. So every kind of index knows the same deleted keys, and a rollback takes them back.

An archive merges the files of archived commits, which are never undone. A merged file stands for the files of its newest commit
and of all earlier ones, which are removed. Whoever has listed one of these before reads the merged file instead.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rli.byte_cache import ByteCache
from rli.codec.scoped_keys import joined
from rli.errors import CorruptTableError, SchemaError
from rli.file_group.merge import newest_records
from rli.hudi.footer_bounds import string_bounds
from rli.hudi.timeline.timeline import Timeline
from rli.storage import Storage
from rli.view import paths

Comparison: TypeAlias = Callable[[pa.Array, pa.Array], pa.Array]

RECORD_KEY: Final = "record_key"
PARTITION_PATH: Final = "partition_path"
ORDERING: Final = "ordering"
INSTANT: Final = "instant"
"""Columns of a file. The partition path is null for a key that was deleted in every partition."""

FORMAT_VERSION: Final = "1"
_VERSION_KEY: Final = b"rli.deleted_keys.version"

_NAME: Final = re.compile(r"(?P<instant>[0-9]{17})-(?:(?P<merged>merged)|[0-9]+-[0-9]+-[0-9]+)\.parquet")

_ROWS_PER_GROUP: Final = 1 << 15
_KEPT_WHOLE: Final = 1 << 20
"""Size in bytes up to which a file is read whole, and its content is remembered. Of a larger file, only the row groups are read
that may hold a sought key."""

_REMEMBERED_BYTES: Final = 64 << 20

_FEW_FILES: Final = 8
"""So many files of archived commits are left as they are."""


@dataclass(frozen=True, slots=True, order=True)
class DeletedKeysFile:
    """A file of deleted keys, as its name tells. Picklable.

    Attributes:
        instant: of the commit, of a merged file the newest one.
        path: in the table.
        size: bytes.
        is_merged: whether it stands for the files of all earlier commits, too.
    """

    instant: str
    path: str
    size: int
    is_merged: bool = False


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """The deleted keys that count in a state of the table. Picklable.

    Attributes:
        storage: of the table.
        files: that hold them.
        since: older deletes do not count.
    """

    storage: Storage
    files: tuple[DeletedKeysFile, ...] = ()
    since: str = ""

    @classmethod
    def of(cls, storage: Storage, timeline: Timeline, since: str) -> Self:
        """The deleted keys of a state of the table, of which the files are listed.

        Args:
            storage: of the table.
            timeline: of the state.
            since: the oldest instant whose deletes count.
        """
        listed = [file for file in _listed(storage) if timeline.is_visible(file.instant)]
        merged = _last_merged(listed)
        counting = (file for file in listed if file.instant >= since and not _is_covered(file, merged))
        return cls(storage, tuple(counting), since)

    def __bool__(self) -> bool:
        return bool(self.files)

    def without(self, known: DeletedKeys) -> DeletedKeys:
        """Those of files that an earlier state did not have."""
        before = frozenset(known.files)
        return DeletedKeys(self.storage, tuple(file for file in self.files if file not in before), self.since)

    def overtake(
        self, record_keys: pa.Array, partition_paths: pa.Array | None, ordering: pa.Array
    ) -> NDArray[np.bool_]:
        """Which records are older than a delete of their key.

        Args:
            record_keys: string array, shape (n,).
            partition_paths: of the records; None for those that are in no certain partition.
            ordering: their ordering values, shape (n,).

        Raises:
            SchemaError: deletes brought values of another type.
            CorruptTableError: a file is damaged.
        """
        return self._compared(record_keys, partition_paths, ordering, pc.less)

    def include(self, record_keys: pa.Array, partition_paths: pa.Array | None, ordering: pa.Array) -> NDArray[np.bool_]:
        """Which deletes are known already, with their ordering value or a greater one; as ``overtake``."""
        return self._compared(record_keys, partition_paths, ordering, pc.less_equal)

    def among(self, record_keys: pa.Array) -> NDArray[np.bool_]:
        """Which keys were deleted, in whatever partition: shape (n,)."""
        found = np.zeros(len(record_keys), dtype=bool)
        for file in self.files:
            rows = _rows_of(self.storage, file, record_keys)
            found |= pc.is_in(record_keys, value_set=rows.column(RECORD_KEY).combine_chunks()).to_numpy(
                zero_copy_only=False
            )
        return found

    def _compared(
        self, record_keys: pa.Array, partition_paths: pa.Array | None, ordering: pa.Array, compare: Comparison
    ) -> NDArray[np.bool_]:
        holds = np.zeros(len(record_keys), dtype=bool)
        if not len(record_keys):
            return holds
        for file in self.files:
            rows = _rows_of(self.storage, file, record_keys)
            everywhere = pc.is_null(rows.column(PARTITION_PATH))
            for part, own in ((rows.filter(everywhere), False), (rows.filter(pc.invert(everywhere)), True)):
                if not part.num_rows or (own and partition_paths is None):
                    continue
                known, sought = part.column(RECORD_KEY).combine_chunks(), record_keys
                if own:
                    known = joined(part.column(PARTITION_PATH).combine_chunks(), known)
                    sought = joined(partition_paths, record_keys)
                found = part.take(pc.index_in(sought, value_set=known))
                counts = pc.greater_equal(found.column(INSTANT), self.since)
                holds |= _holding(compare, ordering, found.column(ORDERING), file) & _true(counts)
        return holds


def saved(storage: Storage, instant: str, token: str, rows: pa.Table) -> str:
    """Write the deleted keys of a write among its unpublished files; returns the file's path in the table.

    Args:
        storage: of the table.
        instant: of the write.
        token: tells this attempt from all others: three numbers, ``1-2-3``.
        rows: with the columns ``RECORD_KEY``, ``PARTITION_PATH`` and ``ORDERING``; no key occurs twice in a partition.
    """
    path = f"{paths.DELETED_KEYS}/{instant}-{token}.parquet"
    instants = pa.repeat(pa.scalar(instant), rows.num_rows)
    storage.write_bytes(paths.unpublished_file(instant, path), _content(rows.append_column(INSTANT, instants)))
    return path


def tidy_up(storage: Storage, timeline: Timeline, since: str, require_held: Callable[[], None]) -> None:
    """Remove files that do not count, and merge those of archived commits.

    May be repeated, and be done late by a process that another one took for dead: commits that it merges are never undone, and
    a file that it removes does not count, or has its rows in another one.

    Args:
        storage: of the table.
        timeline: as it has been since the caller took the lease, before commits leave it.
        since: the oldest instant whose deletes count.
        require_held: raises ``LeaseLostError`` once the lease is another process's, whose files the timeline may not tell.
    """
    listed = _listed(storage)
    if listed:
        require_held()
    # Their instants would come to count as archived.
    gone = {file for file in listed if not timeline.is_visible(file.instant)}
    # A commit on the active timeline without its file would count as torn.
    gone.update(file for file in listed if file.instant < since and timeline.is_archived(file.instant))
    left = [file for file in listed if file not in gone]
    merged = _last_merged(left)
    archived = [file for file in left if timeline.is_archived(file.instant) and not _is_covered(file, merged)]
    if len(archived) > _FEW_FILES:
        merged = _merge(storage, archived, since)
    gone.update(file for file in left if _is_covered(file, merged))
    storage.delete_files(sorted(file.path for file in gone))
    # None comes back with a power cut (P17).
    storage.flush(folders={paths.DELETED_KEYS} if gone else ())


def delete_files_of(storage: Storage, instants: frozenset[str]) -> None:
    """Remove the deleted keys of commits that were undone."""
    storage.delete_files(file.path for file in _listed(storage) if file.instant in instants and not file.is_merged)


def _listed(storage: Storage) -> list[DeletedKeysFile]:
    found = [(_NAME.fullmatch(file.name), file) for file in storage.list_files(paths.DELETED_KEYS)]
    return sorted(
        DeletedKeysFile(name["instant"], file.path, file.size, name["merged"] is not None)
        for name, file in found
        if name is not None
    )


def _last_merged(files: Iterable[DeletedKeysFile]) -> DeletedKeysFile | None:
    return max((file for file in files if file.is_merged), default=None)


def _is_covered(file: DeletedKeysFile, merged: DeletedKeysFile | None) -> bool:
    """Whether a merged file stands for another one."""
    return merged is not None and file.path != merged.path and file.instant <= merged.instant


def _merge(storage: Storage, files: list[DeletedKeysFile], since: str) -> DeletedKeysFile:
    rows = pa.concat_tables([_read(storage, file) for file in files], promote_options="permissive").combine_chunks()
    rows = rows.filter(pc.greater_equal(rows.column(INSTANT), since))
    everywhere = pc.is_null(rows.column(PARTITION_PATH))
    anywhere, somewhere = rows.filter(everywhere), rows.filter(pc.invert(everywhere))
    of_paths, of_keys = (somewhere.column(name).combine_chunks() for name in (PARTITION_PATH, RECORD_KEY))
    parts = [
        _greatest(anywhere, anywhere.column(RECORD_KEY).combine_chunks()),
        _greatest(somewhere, joined(of_paths, of_keys)),
    ]
    newest, content = max(files).instant, _content(pa.concat_tables(parts))
    path = f"{paths.DELETED_KEYS}/{newest}-merged.parquet"
    storage.write_bytes(path, content)
    storage.flush(files=[path], folders=[paths.DELETED_KEYS])
    return DeletedKeysFile(newest, path, len(content), is_merged=True)


def _greatest(rows: pa.Table, keys: pa.Array) -> pa.Table:
    """One row for each key: the greatest ordering value, for as long as the latest delete of the key counts."""
    kept = newest_records(keys, rows.column(ORDERING).combine_chunks())
    if kept is None:
        return rows
    codes = pc.dictionary_encode(keys).indices.to_numpy()
    last = np.zeros(int(codes.max()) + 1, np.int64)
    np.maximum.at(last, codes, rows.column(INSTANT).cast(pa.int64()).to_numpy())
    instants = pa.array(last[codes[kept]]).cast(pa.string())
    return rows.take(pa.array(kept)).set_column(rows.schema.get_field_index(INSTANT), INSTANT, instants)


def _content(rows: pa.Table) -> bytes:
    ordered = rows.sort_by(RECORD_KEY)
    buffer = io.BytesIO()
    pq.write_table(
        ordered.replace_schema_metadata({_VERSION_KEY: FORMAT_VERSION}),
        buffer,
        compression="zstd",
        row_group_size=_ROWS_PER_GROUP,
    )
    return buffer.getvalue()


def _rows_of(storage: Storage, file: DeletedKeysFile, sought: pa.Array) -> pa.Table:
    """The rows of a file, at least those of some keys."""
    key = storage.location, frozenset(storage.options.items()), file
    rows = _REMEMBERED.get(key)
    if rows is not None:
        return rows
    try:
        if file.size > _KEPT_WHOLE:
            return _read(storage, file, sought)
        rows = _read(storage, file)
    except FileNotFoundError as error:
        merged = next((other for other in _listed(storage) if other.is_merged and _is_covered(file, other)), None)
        if merged is None:
            raise _damaged(file, error) from error
        return _rows_of(storage, merged, sought)
    _REMEMBERED.keep(key, rows)
    return rows


def _read(storage: Storage, file: DeletedKeysFile, sought: pa.Array | None = None) -> pa.Table:
    try:
        with storage.filesystem.open_input_file(storage.full_path(file.path)) as source:
            reader = pq.ParquetFile(source)
            told: Mapping[bytes, bytes] = reader.schema_arrow.metadata or {}
            version = told.get(_VERSION_KEY, b"none").decode()
            if version != FORMAT_VERSION:
                raise CorruptTableError(
                    f"a file of deleted keys has another version: file={file.path} version={version}",
                    remedy="use the version of rli that wrote it",
                )
            if sought is None:
                return reader.read().replace_schema_metadata()
            rows = reader.read_row_groups(_groups_with(reader.metadata, sought)).replace_schema_metadata()
            return rows.filter(pc.is_in(rows.column(RECORD_KEY), value_set=sought))
    except FileNotFoundError:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise _damaged(file, error) from error


def _damaged(file: DeletedKeysFile, error: Exception) -> CorruptTableError:
    return CorruptTableError(
        f"a file of deleted keys is missing or damaged: file={file.path} ({error})",
        remedy=(
            "restore the file from a backup, or delete it: then the table forgets these deletes, and older records "
            "that come late are inserted again"
        ),
    )


def _groups_with(metadata: pq.FileMetaData, sought: pa.Array) -> list[int]:
    """The row groups that may hold some keys, by the bounds of their keys."""
    keys = np.sort(sought.cast(pa.binary()).to_numpy(zero_copy_only=False))
    chosen = []
    for number in range(metadata.num_row_groups):
        bounds = string_bounds(metadata.row_group(number).column(0).statistics)
        if bounds is None or np.searchsorted(keys, bounds[0], "left") < np.searchsorted(keys, bounds[1], "right"):
            chosen.append(number)
    return chosen


def _holding(
    compare: Comparison, ordering: pa.Array, found: pa.ChunkedArray, file: DeletedKeysFile
) -> NDArray[np.bool_]:
    try:
        return _true(compare(ordering, found))
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            "deletes of this table brought ordering values of a type that the records' values cannot be compared "
            f"with: deletes={found.type} records={ordering.type} file={file.path}",
            remedy="cast the ordering column, or delete the file: then the table forgets these deletes",
        ) from error


def _true(values: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    """Where values are true, and not null."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    true: NDArray[np.bool_] = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return true


_REMEMBERED: Final = ByteCache[pa.Table](_REMEMBERED_BYTES, attrgetter("nbytes"))
"""The content of files, which never change."""
