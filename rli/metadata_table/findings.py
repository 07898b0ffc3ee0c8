"""What a look at the metadata table of a table finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from rli.errors import CorruptTableError, InstantNotFoundError, RliError
from rli.findings import Finding, Verdict, problem
from rli.hudi.metadata.partitions import METADATA_FOLDER, PartitionKind, kind_of
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.properties import load_properties
from rli.metadata_table.compaction import held_back_by
from rli.metadata_table.status import metadata_status
from rli.view.definition import TableDefinition
from rli.view.metadata_remedies import to_build_again
from rli.view.planned_indexing import PendingIndexing, readable_indexings
from rli.view.second_look import read_again
from rli.view.snapshot import Snapshot
from rli.view.table_metadata import require_each_commit

_ROOM: Final = "metadata table"

_MANY_DELTACOMMITS: Final = 30
"""Since the last compaction: three times as many as writers leave there."""


def metadata_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Whether the metadata table can be read, has each commit, and is compacted; nothing if there is none.

    Partitions that readers rely on are opened, and small ones read; ``Verification`` reads and compares all.

    Args:
        snapshot: state of the table.
    """
    table = snapshot.table
    try:
        yield from _pending_indexings(snapshot)
        reader = MetadataTableReader(table.storage, snapshot.timeline, table.properties)
        status = metadata_status(reader)
    except RliError as error:
        yield problem(_ROOM, error)
        return
    if not status.partitions:
        return
    damaged = [*_other_version(snapshot)] or [*_damage(reader, snapshot)]
    if damaged:
        yield from damaged
        return
    names = ",".join(found.partition for found in status.partitions)
    pending = held_back_by(snapshot.timeline, reader.timeline) if status.deltacommits else None
    detail = f"partitions={names} deltacommits_since_compaction={status.deltacommits}"
    detail += "" if pending is None else f" held_back_by={pending}"
    if status.deltacommits <= _MANY_DELTACOMMITS:
        yield Finding(_ROOM, Verdict.OK, detail)
        return
    yield Finding(
        _ROOM,
        Verdict.WARNING,
        f"its log files grow, and every reader of it reads them: {detail}",
        "run: rli metadata compact TABLE"
        if pending is None
        else "if no engine works on the pending instant, let the engine that began it roll it back; then run: rli metadata "
        "compact TABLE",
    )


def _pending_indexings(snapshot: Snapshot) -> Iterator[Finding]:
    indexings, damaged = readable_indexings(snapshot.timeline)
    yield from map(_unfinished, indexings)
    for indexing in damaged:
        found = problem(_ROOM, indexing.error)
        # Writers pass an indexing that nobody has begun.
        yield found if indexing.is_begun else replace(found, verdict=Verdict.WARNING)


def _unfinished(indexing: PendingIndexing) -> Finding:
    names = ",".join(sorted(indexing.partitions))
    detail = f"indexing={indexing.instant.time} state={indexing.instant.state} partitions={names}"
    abort = f"rli metadata disable TABLE --partitions {names}"
    if not indexing.is_begun:
        advice = f"run: rli index run TABLE; or: {abort}"
        return Finding(_ROOM, Verdict.WARNING, f"an indexing is unfinished: {detail}", advice)
    return Finding(
        _ROOM,
        Verdict.WARNING,
        f"an indexer of Hudi builds an index, or died: {detail}",
        f"wait until it is built; if the indexer is dead, abort the indexing: {abort}",
    )


def _other_version(snapshot: Snapshot) -> Iterator[Finding]:
    """Whether Hudi, which opens the metadata table as a table, takes it for one of another version."""
    table = snapshot.table
    try:
        version = load_properties(table.storage, METADATA_FOLDER).version
    except RliError as error:
        yield replace(problem(_ROOM, error), advice=f"build it again: {to_build_again(table, [PartitionKind.FILES])}")
        return
    if version != table.properties.version:
        yield Finding(
            _ROOM,
            Verdict.PROBLEM,
            f"it is of another version than its table: table_version={table.properties.version} metadata_table_version={version}",
            f"build it again: {to_build_again(table, [PartitionKind.FILES])}",
        )


def _require_each_commit(reader: MetadataTableReader, partition: str, snapshot: Snapshot) -> None:
    """As ``require_each_commit``; others may undo a commit between two looks, and its deltacommit goes first."""
    try:
        require_each_commit(reader, partition, snapshot.table)
    except CorruptTableError:
        read_again(snapshot.table, partial(_look_again, partition))


def _look_again(partition: str, table: TableDefinition) -> None:
    reader = MetadataTableReader(table.storage, table.load_timeline(), table.properties)
    if partition in reader.partitions:
        require_each_commit(reader, partition, table)


def _damage(reader: MetadataTableReader, snapshot: Snapshot) -> Iterator[Finding]:
    damaged = dict[str, str]()
    for name in reader.partitions:
        if kind_of(name) is None:
            continue
        try:
            _require_each_commit(reader, name, snapshot)
            reader.require_readable(name)
        except InstantNotFoundError:
            # Others have compacted it meanwhile, so it can be read.
            continue
        except RliError as error:
            damaged[name] = error.problem
    advice = f"build again what is damaged: {to_build_again(snapshot.table, damaged)}" if damaged else ""
    for name, problem_of_it in damaged.items():
        detail = f"readers read folders and footers in place of this partition: partition={name}: {problem_of_it}"
        yield Finding(_ROOM, Verdict.PROBLEM, detail, advice)
