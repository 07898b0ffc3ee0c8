"""Log files that bring a change to the file groups of one partition of the metadata table."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.hudi.file_names import LogFileName, token_begin
from rli.hudi.hfile.cells import concatenated
from rli.hudi.hfile.key_order import order_of
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block, deletes
from rli.hudi.log_file.hfile_block import hfile_blocks
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
        cells, chosen = _last_of_each(cells, placed_groups(change.partition, cells["key"], len(owned)))
        # All file groups at once as far as it goes: a small commit has few cells for each of many.
        is_removed = pc.equal(pc.binary_length(cells["value"]), 0)
        put, removed = in_form(cells.filter(pc.invert(is_removed)), self.schema), cells["key"].filter(is_removed)
        of_removed = is_removed.to_numpy(zero_copy_only=False)
        numbers = np.arange(len(owned) + 1)
        puts, removals = (np.searchsorted(chosen[part], numbers).tolist() for part in (~of_removed, of_removed))
        blocks = hfile_blocks(self.instant, put, sorted({*puts} - {0}), self.schema)
        for number, group in enumerate(owned):
            writes, own_removed = puts[number + 1] - puts[number], removed[removals[number] : removals[number + 1]]
            if writes or len(own_removed) or is_new:
                content = self._content(change.partition, [next(blocks)] if writes else [], own_removed)
                yield self._log(change.partition, group, writes, len(own_removed), content)

    def _log(self, partition: str, group: GroupSlice, writes: int, deletes: int, content: bytes) -> GroupLog:
        name, appended_to = self._name(group)
        stat = WriteStat(
            group.file_id,
            posixpath.join(partition, str(name)),
            partition,
            name.instant,
            writes=writes,
            inserts=0,
            update_writes=writes,
            deletes=deletes,
            written_bytes=len(content),
            file_size=len(content),
            appended_to=appended_to,
        )
        return GroupLog(stat, content)

    def _content(self, partition: str, blocks: list[bytes], removed: pa.Array) -> bytes:
        """The content of a log file; without records and removed keys, the empty block that a new file group begins with."""
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


def _last_of_each(cells: pa.RecordBatch, groups: NDArray[np.int64]) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """The last cell of each key, ordered by file group and key, and their file groups.

    Args:
        cells: the later ones of a key count.
        groups: number of the file group of each; cells of one key have the same.
    """
    # Small numbers are counted instead of compared.
    by_group = np.argsort(groups.astype(np.min_scalar_type(groups.max(initial=0))), kind="stable")
    keys = cells["key"].take(pa.array(by_group))
    bounds = [0, *(np.flatnonzero(np.diff(groups[by_group])) + 1).tolist(), len(keys)]
    # One group after the other: of all keys at once, sorting would take longer.
    order = np.concatenate(
        [by_group[start:end][order_of(keys.slice(start, end - start))] for start, end in pairwise(bounds)]
    )
    ordered = cells.take(pa.array(order))
    keys = ordered["key"]
    if len(keys) < 2:
        return ordered, groups[order]
    is_last = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    is_last = np.append(is_last, True)
    return (ordered, groups[order]) if is_last.all() else (ordered.filter(pa.array(is_last)), groups[order][is_last])
