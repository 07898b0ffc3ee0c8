"""What a look at the metadata table of a table finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rli.errors import InstantNotFoundError, RliError
from rli.findings import Finding, Verdict, problem
from rli.hudi.metadata.partitions import kind_of
from rli.hudi.metadata.reader import MetadataTableReader
from rli.metadata_table.compaction import held_back_by
from rli.metadata_table.status import metadata_status
from rli.view.planned_indexing import pending_indexings
from rli.view.snapshot import Snapshot

_ROOM: Final = "metadata table"

_MANY_DELTACOMMITS: Final = 30
"""Since the last compaction: three times as many as writers leave there."""


def metadata_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Whether the metadata table can be read, and whether it is compacted; nothing if there is none.

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
    damaged = [*_damage(reader)]
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
    for indexing in pending_indexings(snapshot.timeline):
        names = ",".join(sorted(indexing.partitions))
        detail = f"indexing={indexing.instant.time} state={indexing.instant.state} partitions={names}"
        abort = f"rli metadata disable TABLE --partitions {names}"
        if indexing.is_begun:
            yield Finding(
                _ROOM,
                Verdict.WARNING,
                f"an indexer of Hudi builds an index, or died: {detail}",
                f"wait until it is built; if the indexer is dead, abort the indexing: {abort}",
            )
        else:
            yield Finding(
                _ROOM, Verdict.WARNING, f"an indexing is unfinished: {detail}", f"run: rli index run TABLE; or: {abort}"
            )


def _damage(reader: MetadataTableReader) -> Iterator[Finding]:
    for name in reader.partitions:
        if kind_of(name) is None:
            continue
        try:
            reader.require_readable(name)
        except InstantNotFoundError:
            # Others have compacted it meanwhile, so it can be read.
            continue
        except RliError as error:
            advice = (
                f"rli metadata disable TABLE --partitions {name}, then rli metadata enable TABLE --partitions {name}"
            )
            detail = f"readers read folders and footers in place of this partition: partition={name}: {error.problem}"
            yield Finding(_ROOM, Verdict.PROBLEM, detail, f"build the partition again: {advice}")
