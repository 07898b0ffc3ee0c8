"""What journals say, as cells of the record index: commits place keys, and undoing them puts keys back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from rli.file_group.journal import Journal, Positions
from rli.file_group.journal_list import readable_journals
from rli.hudi.hfile.cells import CELLS, removals
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.record_codec import encode_record
from rli.hudi.metadata.records import RecordLocation
from rli.locations import LocationUpdate, coalesce_updates, named_groups
from rli.metadata_table.partition_change import PartitionChange
from rli.model import FileGroupId
from rli.storage import Storage

_Owned = tuple[str | None, pa.RecordBatch]
"""Partition path of the table, if each has file groups of its own, and cells of keys there."""


def placed(storage: Storage, journals: Iterable[Journal], *, is_partitioned: bool) -> list[PartitionChange]:
    """The change of the record index by a commit.

    Args:
        storage: of the table.
        journals: of the commit.
        is_partitioned: whether the record index has file groups of its own for each partition of the table.
    """
    by_instant: dict[str, list[Journal]] = defaultdict(list)
    for journal in journals:
        by_instant[journal.instant].append(journal)
    found: list[_Owned] = []
    for instant, of_commit in by_instant.items():
        if is_partitioned:
            # What arrived in a partition counts, so it comes last.
            found += (owned for journal in of_commit for owned in _left(storage, journal))
        changes = (update for journal in of_commit for update in journal.changes(storage))
        for update in coalesce_updates(changes):
            positions = np.zeros(len(update.record_keys), np.int64)
            found += _cells(update, [instant], positions, is_partitioned=is_partitioned)
    return _changes(found)


def put_back(storage: Storage, undone: Iterable[Sequence[Journal]], *, is_partitioned: bool) -> list[PartitionChange]:
    """The change of the record index by undoing commits.

    Args:
        storage: of the table.
        undone: the journals of each commit that is undone, the newest commit first.
        is_partitioned: as for ``placed``.
    """
    found: list[_Owned] = []
    for journals in undone:
        for journal in journals:
            if is_partitioned:
                found += [(journal.group.partition_path, removals(keys)) for keys, _, _ in journal.moved_keys(storage)]
            instants = [*sorted(journal.prior_instants(storage)), None]
            for positions, update in journal.undone(storage, instants):
                found += _cells(update, instants, positions, is_partitioned=is_partitioned)
    return _changes(found)


def undone_journals(storage: Storage, undone: Iterable[str], shown: Iterable[bool]) -> list[list[Journal]]:
    """The journals of each undone commit; commits without readable journals are left out.

    Args:
        storage: of the table.
        undone: instants of the commits, the newest first.
        shown: whether the metadata table may show each of them; else it has no journals that count.
    """
    pairs = zip(undone, shown, strict=True)
    found = [readable_journals(storage, time) if is_shown else [] for time, is_shown in pairs]
    return [journals for journals in found if journals is not None]


def touched_partitions(storage: Storage, undone: Iterable[Sequence[Journal]]) -> set[str]:
    """The partitions of the table in which keys came or went by some commits, told by their journals."""
    journals = [journal for of_commit in undone for journal in of_commit]
    prior = (group.partition_path for journal in journals for group in journal.prior_groups(storage))
    return {*(journal.group.partition_path for journal in journals), *prior}


def _left(storage: Storage, journal: Journal) -> Iterator[_Owned]:
    """The keys that moved into the file group from other partitions, removed there."""
    for keys, paths, _ in journal.moved_keys(storage):
        for path in paths.unique().to_pylist():
            if path != journal.group.partition_path:
                yield path, removals(keys.filter(pa.array([found == path for found in paths.to_pylist()])))


def _cells(
    update: LocationUpdate, instants: Sequence[str | None], positions: Positions, *, is_partitioned: bool
) -> Iterator[_Owned]:
    """The new locations of keys as cells, by the partitions that the keys are in, or are gone from, if these have file groups."""
    named = named_groups(update.partition_paths, update.file_ids)
    distinct, codes = np.unique(named.codes * len(instants) + positions, return_inverse=True)
    locations = [(named.groups[code // len(instants)], instants[code % len(instants)]) for code in distinct.tolist()]
    values = pa.array([_value(*location) for location in locations], pa.binary()).take(pa.array(codes))
    cells = pa.record_batch([update.record_keys.cast(pa.binary()), values], schema=CELLS)
    if not is_partitioned:
        yield None, cells
        return
    owners = update.partition_paths.dictionary_encode()
    for code, path in enumerate(owners.dictionary.to_pylist()):
        yield path, cells.filter(pa.array(owners.indices.to_numpy() == code))


def _value(group: FileGroupId | None, instant: str | None) -> bytes:
    if group is None or instant is None:
        return b""
    return encode_record(RecordLocation(group.partition_path, group.file_id, instant))


def _changes(found: Iterable[_Owned]) -> list[PartitionChange]:
    by_owner: dict[str | None, list[pa.RecordBatch]] = defaultdict(list)
    for path, cells in found:
        by_owner[path].append(cells)
    return [PartitionChange(PartitionKind.RECORD_INDEX, cells, owner) for owner, cells in by_owner.items()]
