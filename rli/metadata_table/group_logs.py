"""Log files that bring a change to the file groups of one partition of the metadata table."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.hudi.file_names import LogFileName, token_begin
from rli.hudi.hfile.cells import concatenated
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block, deletes
from rli.hudi.log_file.hfile_block import hfile_block
from rli.hudi.metadata.cells import in_form
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.groups import placed_groups
from rli.hudi.metadata.partitions import METADATA_FOLDER, data_partition_of, escaped_partition, file_id, group_number
from rli.hudi.timeline.commit_metadata import AppendedTo, WriteStat
from rli.metadata_table.partition_change import PartitionChange


@dataclass(frozen=True, slots=True)
class GroupLog:
    """A log file of the metadata table that is not written yet.

    Attributes:
        stat: says where it comes to be, relative to the metadata table.
        content: of the file.
    """

    stat: WriteStat
    content: bytes

    @property
    def path(self) -> str:
        """Of the file, relative to the table."""
        return posixpath.join(METADATA_FOLDER, self.stat.path)


@dataclass(frozen=True, slots=True)
class LogWriter:
    """Makes the log files of one deltacommit.

    Attributes:
        instant: of the deltacommit.
        names_instant: the names of log files hold the instant of their deltacommit: table version 8 and later; else that of the
            base file below them.
        schema: Avro schema of the values.
        attempt: to carry a table service out; a write has one only. No name of a log file is given twice.
    """

    instant: str
    names_instant: bool
    schema: str
    attempt: int = 0

    def logs(self, groups: Sequence[GroupSlice], change: PartitionChange) -> Iterator[GroupLog]:
        """The log files of the file groups that a change concerns, and of each that is new.

        Args:
            groups: of the partition of the metadata table, ordered by file id.
            change: of that partition.
        """
        owned, is_new = _groups_of(groups, change)
        cells = concatenated(change.cells)
        chosen = placed_groups(change.partition, cells["key"], len(owned))
        for number, group in enumerate(owned):
            # Later cells count: the order is kept until each key has one.
            own = _last_of_each(cells.filter(pa.array(chosen == number)))
            if own.num_rows or is_new:
                yield self._log(change.partition, group, own)

    def _log(self, partition: str, group: GroupSlice, cells: pa.RecordBatch) -> GroupLog:
        is_removed = pc.equal(pc.binary_length(cells["value"]), 0)
        put, removed = cells.filter(pc.invert(is_removed)), cells["key"].filter(is_removed)
        content = self._content(partition, in_form(put, self.schema), removed)
        name, appended_to = self._name(group)
        stat = WriteStat(
            group.file_id,
            posixpath.join(partition, str(name)),
            partition,
            name.instant,
            writes=put.num_rows,
            inserts=0,
            update_writes=put.num_rows,
            deletes=len(removed),
            written_bytes=len(content),
            file_size=len(content),
            appended_to=appended_to,
        )
        return GroupLog(stat, content)

    def _content(self, partition: str, put: pa.RecordBatch, removed: pa.Array) -> bytes:
        """The blocks of a log file; without records and removed keys, the empty block that a new file group begins with."""
        blocks = [hfile_block(self.instant, [put], self.schema)] if put.num_rows else []
        if len(removed):
            blocks.append(delete_block(self.instant, deletes(removed, partition), self.schema))
        return b"".join(blocks) or delete_block(self.instant, NO_DELETES)

    def _name(self, group: GroupSlice) -> tuple[LogFileName, AppendedTo]:
        token = f"{token_begin(self.instant)}{self.attempt}"
        if self.names_instant:
            name = LogFileName(group.file_id, self.instant, 1, token)
            return name, AppendedTo("", (str(name),))
        # Those of dead writers, too: a number is never given twice.
        version = max((found.version for found in group.names), default=0) + 1
        began = group.base_instant or (group.names[0].instant if group.names else self.instant)
        name = LogFileName(group.file_id, began, version, token)
        return name, AppendedTo("" if group.base is None else group.base.name, (*map(str, group.names), str(name)))


def _groups_of(groups: Sequence[GroupSlice], change: PartitionChange) -> tuple[list[GroupSlice], bool]:
    """The file groups that hold the keys of a change, and whether they are new."""
    owner = "" if change.data_partition is None else escaped_partition(change.data_partition)
    by_owner: dict[str | None, list[GroupSlice]] = {}
    for group in groups:
        by_owner.setdefault(data_partition_of(group.file_id, change.partition), []).append(group)
    owned = by_owner.get(owner)
    if owned is not None:
        return sorted(owned, key=lambda group: group_number(group.file_id)), False
    # As many as the other partitions have: any count will do, and stands from now on.
    count = max(map(len, by_owner.values()), default=1)
    ids = (file_id(change.partition, number, change.data_partition) for number in range(count))
    return [GroupSlice(new, None, "", (), ()) for new in ids], True


def _last_of_each(cells: pa.RecordBatch) -> pa.RecordBatch:
    """The cells sorted by key; of each key the last one."""
    ordered = cells.take(pc.array_sort_indices(cells["key"]))
    keys = ordered["key"]
    if len(keys) < 2:
        return ordered
    is_last = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return ordered.filter(pa.array(np.append(is_last, True)))
