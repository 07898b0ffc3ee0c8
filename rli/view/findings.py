"""What a look at the definition and the timeline of a table finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rli.errors import RliError
from rli.findings import Finding, Verdict, problem
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.timeline import Timeline
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.depth import told_depth
from rli.view.registration import stores_password
from rli.view.snapshot import Snapshot

_DEEP: Final = 0.5
"""Bytes of log files for each byte of base files: five times as many as those from which on writers compact."""

_MANY_LOGS: Final = 50
"""Log files of one file slice: each is opened by every read of it."""

_MANY_COMMITS: Final = 180
"""On the active timeline: twice as many as writers leave there by default."""


def definition_findings(table: TableDefinition) -> Iterator[Finding]:
    """What the table is, and whether rli may write it."""
    properties = table.properties
    yield Finding(
        "table",
        Verdict.OK,
        f"name={properties.name} version={properties.version} keys={','.join(properties.record_key_fields)} "
        f"partitions={','.join(properties.partition_fields) or 'none'} "
        f"ordering={properties.ordering_field or 'none'}",
    )
    try:
        require_writable(properties)
    except RliError as error:
        refused = problem("table", error)
        yield Finding("writing", Verdict.WARNING, refused.detail, refused.advice)
    if stores_password(table):
        yield Finding(
            "password",
            Verdict.WARNING,
            f"the password of the index is in a file of the table: file={paths.SETTINGS}",
            "write it into ~/.config/rli/credentials.toml (docs/security.md), then remove it from index_url in that file; "
            "better, change the password: others may have read it",
        )


def timeline_findings(timeline: Timeline) -> Iterator[Finding]:
    """What the timeline holds, and whether it is too long."""
    latest, commits = timeline.latest_write, len(timeline.completed_writes)
    yield Finding(
        "timeline",
        Verdict.OK,
        f"instants={len(timeline.instants)} commits={commits} pending={len(timeline.pending)} "
        f"last={latest.time if latest else 'none'}",
    )
    if commits > _MANY_COMMITS:
        yield Finding(
            "maintenance",
            Verdict.WARNING,
            f"a long active timeline slows every read and write: commits={commits}",
            "run: rli clean TABLE, then rli archive TABLE; to let writers do it: rli maintenance TABLE --on; a "
            "savepoint or a pending instant may keep old commits",
        )


def depth_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """How much of a merge-on-read table is in log files; nothing of a copy-on-write table.

    Args:
        snapshot: the present state, whose files have been listed.
    """
    if snapshot.table.properties.is_copy_on_write:
        return
    depth = told_depth(snapshot.table.location, [*snapshot.slices.values()])
    detail = f"log_bytes={depth.log_bytes} base_bytes={depth.base_bytes} most_log_files={depth.most_log_files}"
    if depth.log_bytes <= _DEEP * depth.base_bytes and depth.most_log_files <= _MANY_LOGS:
        yield Finding("log files", Verdict.OK, detail)
        return
    yield Finding(
        "log files",
        Verdict.WARNING,
        f"deep file slices slow every read: {detail}",
        "run: rli compact TABLE; to let writers do it: rli maintenance TABLE --on",
    )
