"""Removing the surplus records of keys that stand in the table more than once; one record of each key stays.

No write of rli makes such records. A writer of Hudi may: its check of conflicts compares file groups, and two inserts of one key at
the same moment share none.

Each file group with a surplus record is rewritten without the records of the repeated keys. The records that stay come into a new file
group of their partition. So the journals say of each key where it is, whichever of its records the index had known.

With the index ``bucket:``, a key has one bucket. There, each bucket with such a key, or with several file groups, becomes one new file group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from rli.commit.conflicts import ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import SettingsError
from rli.file_group import work_rows
from rli.file_group.log_appends import LogAppending
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult, FileGroupTarget
from rli.file_group.writer import write_file_groups
from rli.hudi.file_names import new_file_id, new_write_token
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.instant import Action
from rli.index.contract import TableIndex
from rli.index.placing import JoinedBucket, JoinsBuckets, PlacesRecords
from rli.index.repeats import find_repeats
from rli.model import CommitResult, FileGroupId, Step, WriteCounts
from rli.view.definition import TableDefinition
from rli.view.lost_files import require_files
from rli.write.engine.contract import Engine
from rli.write.operations.operation import written
from rli.write.operations.repeated_records import PLACE, RepeatedKey, by_group, copies_of, newest, records_of, told
from rli.write.options import WriteOptions

_MOST_TOLD: Final = 1_000


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """What ``Table.deduplicate`` did, or would do.

    Attributes:
        instant: of the commit; None if no key is repeated, and in a dry run.
        keys: record keys that stood in the table more than once.
        records_removed: their records without the one that stays for each key.
        repeated: the keys, 1,000 at most, in their order.
        dry_run: whether nothing was written.
    """

    instant: str | None
    keys: int
    records_removed: int
    repeated: tuple[RepeatedKey, ...]
    dry_run: bool = False


def deduplicate(table: TableDefinition, index: TableIndex, engine: Engine, options: WriteOptions) -> Deduplicated:
    """Remove surplus records of repeated keys; see ``Table.deduplicate``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        options: of the write.

    Raises:
        SettingsError: a bucket of the index holds a key more than once, and can have no other file group.
        UnsupportedTableError: rli does not write such tables, or a compaction of a file group with such a key is pending.
    """
    require_writable(table.properties)
    operation = Deduplication()
    result: CommitResult = written(
        operation.name,
        table,
        index,
        engine,
        partial(operation.prepare, engine=engine),
        options=options,
        caller=options.caller,
        action=Action.REPLACE_COMMIT if isinstance(index, JoinsBuckets) else None,
    )
    repeated = operation.repeated
    return Deduplicated(
        result.instant, len(repeated), result.deleted, tuple(repeated[:_MOST_TOLD]), dry_run=result.dry_run
    )


@dataclass(slots=True)
class Deduplication:
    """The work of each attempt.

    Attributes:
        repeated: what the last attempt has found.
    """

    name: ClassVar[str] = "UPSERT"

    repeated: list[RepeatedKey] = field(default_factory=list)

    def prepare(self, write: WriteBasis, engine: Engine) -> PreparedWrite:
        """Rewrite the file groups with repeated keys; may be called again for another attempt.

        Args:
            write: the attempt, or a dry run.
            engine: does the work.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        require_files(write.snapshot)
        schema = write.snapshot.schema or pa.schema([])
        copies = [copies_of(write, schema, found) for found in find_repeats(write.snapshot, write.index.scope)]
        # Of each key the record that stays, and all of its records.
        chosen = [(newest(part, write), part) for part in copies if part.num_rows]
        write.on_step(Step.TAGGED)
        self.repeated = [key for stays, part in chosen for key in told(stays, part)]
        parts = _parts(write, schema, chosen)
        # The record that stays was chosen before: no ordering value is compared.
        context = write.context(schema, is_flushed=engine.flushes_in_tasks)
        # A delete in a log file would leave the second record of a key in a base file: Hudi merges the first one. Indexes of columns
        # read the files: the entry of a record that stays may have gone with one of the others.
        context = replace(
            context,
            ordering_field=None,
            skips_unchanged=False,
            appending=_without_appends(context.appending),
            noted=(),
        )
        write.on_step(Step.RESOLVED)
        results, groups = list[FileGroupResult](), set[FileGroupId]()
        for work in parts:
            written_groups = write_file_groups(context, work.targets, work.rows, work.counts)
            results += [replace(result, replaces=work.replaced.get(result.group, ())) for result in written_groups]
            groups |= work.groups
        write.on_step(Step.WRITTEN)
        removed = WriteCounts(deleted=sum(part.num_rows - stays.num_rows for stays, part in chosen))
        read = ReadSet(frozenset(groups))
        return PreparedWrite(results, schema, self.name, removed, read, is_flushed=engine.flushes_in_tasks)


def _without_appends(appending: LogAppending | None) -> LogAppending | None:
    return None if appending is None else replace(appending, most_logs=0)


@dataclass(frozen=True, slots=True)
class _Work:
    """Work rows by file group; see ``write_file_groups``.

    Attributes:
        targets: the file groups.
        rows: of all of them.
        counts: how many rows each file group has.
        replaced: new file group → those whose place it takes.
    """

    targets: Sequence[FileGroupTarget]
    rows: pa.Table
    counts: Sequence[int]
    replaced: Mapping[FileGroupId, tuple[FileGroupId, ...]]

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        targets: Sequence[FileGroupTarget],
        rows: Sequence[pa.Table],
        replaced: Mapping[FileGroupId, tuple[FileGroupId, ...]] = MappingProxyType({}),
    ) -> Self:
        """The work of some file groups, each with its work rows."""
        whole = pa.concat_tables([work_rows.work_schema(schema).empty_table(), *rows])
        return cls(targets, whole, [table.num_rows for table in rows], replaced)

    @property
    def groups(self) -> frozenset[FileGroupId]:
        """The file groups that are written or replaced."""
        return frozenset(target.group for target in self.targets).union(*self.replaced.values())


def _parts(write: WriteBasis, schema: pa.Schema, chosen: Sequence[tuple[pa.Table, pa.Table]]) -> Iterable[_Work]:
    """What is written, one part after the other; arguments as for ``_moves``.

    Raises:
        SettingsError: the index cannot place records otherwise.
    """
    if isinstance(write.index, JoinsBuckets):
        groups = {group for _, part in chosen for group, _ in by_group(part)}
        # One by one: all records of a bucket are in memory.
        return (_joined(write, schema, bucket) for bucket in write.index.to_join(write.snapshot, groups))
    if chosen and isinstance(write.index, PlacesRecords):
        raise SettingsError(
            f"a bucket of the index holds a key more than once, and its file group cannot be replaced: "
            f"table={write.table.location} index={write.index.url}",
            remedy="first give the table another kind of index: rli index migrate TABLE --to simple:",
        )
    return [_moves(write, schema, chosen)] if chosen else []


def _moves(write: WriteBasis, schema: pa.Schema, chosen: Iterable[tuple[pa.Table, pa.Table]]) -> _Work:
    """All records of repeated keys leave their file groups; those that stay come into a new one of their partition.

    Args:
        write: the attempt.
        schema: of the table.
        chosen: of each part of the table the records that stay, and all records.
    """
    leaving: dict[FileGroupId, list[pa.Array]] = defaultdict(list)
    coming: dict[str, list[pa.Table]] = defaultdict(list)
    for stays, part in chosen:
        for group, records in by_group(part):
            leaving[group].append(records.column(RECORD_KEY).combine_chunks().unique())
        for path in stays.column(work_rows.PRIOR_PARTITION_PATH).unique().to_pylist():
            coming[path].append(stays.filter(pc.equal(stays.column(work_rows.PRIOR_PARTITION_PATH), path)))
    slices = write.snapshot.slices.of_groups(leaving)
    targets = [FileGroupTarget(group, slices[group], new_write_token()) for group in sorted(leaving)]
    rows = [_departures(schema, target.group, leaving[target.group]) for target in targets]
    for path, records in sorted(coming.items()):
        targets.append(FileGroupTarget(FileGroupId(path, new_file_id()), None, new_write_token()))
        rows.append(_arrivals(schema, targets[-1].group, pa.concat_tables(records)))
    return _Work.of(schema, targets, rows)


def _joined(write: WriteBasis, schema: pa.Schema, bucket: JoinedBucket) -> _Work:
    """All records of a bucket, one of each key, come into a new file group."""
    target = FileGroupTarget(bucket.group, None, new_write_token())
    records = newest(records_of(write, schema, bucket.sources, None), write)
    replaced = {bucket.group: tuple(source.group for source in bucket.sources)}
    return _Work.of(schema, [target], [_arrivals(schema, bucket.group, records)], replaced)


def _departures(schema: pa.Schema, group: FileGroupId, keys: Iterable[pa.Array]) -> pa.Table:
    leaving = pa.concat_arrays([*keys])
    return _work_rows(schema, group, leaving, Change.MOVE_OUT, {})


def _arrivals(schema: pa.Schema, group: FileGroupId, records: pa.Table) -> pa.Table:
    columns = {name: records.column(name) for name in (*PLACE, *schema.names)}
    return _work_rows(schema, group, records.column(RECORD_KEY), Change.MOVE_IN, columns)


def _work_rows(
    schema: pa.Schema, group: FileGroupId, keys: pa.Array, change: Change, columns: Mapping[str, pa.ChunkedArray]
) -> pa.Table:
    """Work rows of a file group; columns that are not given are null."""
    own = {
        work_rows.RECORD_KEY: keys,
        work_rows.CHANGE: pa.repeat(pa.scalar(int(change), pa.int8()), len(keys)),
        work_rows.PARTITION_PATH: pa.repeat(pa.scalar(group.partition_path, pa.string()), len(keys)),
        work_rows.FILE_ID: pa.repeat(pa.scalar(group.file_id, pa.string()), len(keys)),
        work_rows.WANTED_PARTITION_PATH: pa.repeat(pa.scalar(group.partition_path, pa.string()), len(keys)),
        **columns,
    }
    whole = work_rows.work_schema(schema)
    return pa.table([own.get(field.name, pa.nulls(len(keys), field.type)) for field in whole], schema=whole)
