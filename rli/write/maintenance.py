"""Inline maintenance: a writer keeps the table small after its commit, as Hudi's writers do.

Without it, each commit adds files to the timeline, and every later commit and look-up reads them all. So after every
few commits the writer clusters small files, cleans old versions and archives old instants. It does so after its own
commit has come to its end, and whatever goes wrong is logged: the commit stands. While another process holds the lease,
it waits for a moment only. No service changes the rows that a read shows (docs/protocol.md, P24).

The timeline alone tells what is due, so no state is kept: the writer of each n-th commit since the last run does the work.
"""

from __future__ import annotations

from typing import Final

from rli.commit.exclusive_service import table_service
from rli.errors import LeaseBusyError
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import TableIndex
from rli.services.archive import archive
from rli.services.clean import clean
from rli.services.compaction import CompactionChoice
from rli.services.metadata_compaction import DELTACOMMITS_OF_COMPACTION, compact_metadata
from rli.services.purge import purge_index
from rli.settings import Maintenance
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition, load_definition
from rli.view.snapshot import Snapshot
from rli.write.rewrites.clustering import ClusteringChoice, cluster, planned_regroupings
from rli.write.rewrites.compaction import Compactions

_MOST_FILES: Final = 2_000
"""Base files that one inline clean deletes; the next one deletes the rest."""

_MOST_TARGETS: Final = 4
"""Base files of the target size that one inline clustering writes."""

_MOST_COMPACTED: Final = 16
"""File slices of the target size that one inline compaction reads."""

_LEAST_SHARE: Final = 0.1
"""Bytes of log files for each byte of the base file, from which on an inline compaction takes a slice: it writes about ten bytes for each."""

_BYTES_FOR_OPENING: Final = 256 * 1024
"""Bytes of a base file that a reader reads in the time for a small log file."""

_MOST_COMMITS: Final = 500
"""Commits that leave the active timeline by one inline archive."""

_METADATA: Final = "metadata"

_PATIENCE_SECONDS: Final = 5.0
"""For how long a service waits for the lease. The caller waits for its commit's result meanwhile."""


def maintain_if_due(table: TableDefinition, index: TableIndex, timeline: Timeline, tasks: TaskRunner) -> None:
    """Run the services that are due after a commit; whatever goes wrong is logged.

    Args:
        table: the definition as the writer knows it.
        index: of the table.
        timeline: with the commit.
        tasks: runs the work of a clustering.
    """
    try:
        _maintain(table, index, timeline, tasks)
    except LeaseBusyError as busy:
        events.MAINTENANCE_LEFT.log(table=table.location, cause=busy)
    except Exception as error:  # noqa: BLE001  (see below)
        # Whatever it is, the commit stands, and its caller must not take it for one that failed.
        events.MAINTENANCE_FAILED.log_with_traceback(error, table=table.location)


def due_services(timeline: Timeline, settings: Maintenance) -> list[str]:
    """The services that the writer of the last commit of a timeline is to run, in this order."""
    since_clean = _commits_since(timeline, timeline.last_clean)
    since_clustering = _commits_since(timeline, timeline.last_replacement)
    excess = len(timeline.completed_writes) - settings.keep_max_commits
    since_compaction = sum(
        write.action == Action.DELTA_COMMIT and write.time > (timeline.last_compaction or "")
        for write in timeline.completed_writes
    )
    deltacommits = None if settings.is_off else settings.compaction_inline_max_delta_commits
    due = {
        # First: what comes next finds fewer files.
        Action.COMPACTION: deltacommits is not None and _is_nth(since_compaction, deltacommits),
        Action.CLUSTERING: settings.clustering_inline
        and _is_nth(since_clustering, settings.clustering_inline_max_commits),
        Action.CLEAN: settings.clean_automatic and _is_nth(since_clean, settings.clean_max_commits),
        # Where a savepoint or a pending write holds back the archive, it is tried again after some commits only.
        "archive": settings.archive_automatic and excess > 0 and (excess - 1) % settings.clean_max_commits == 0,
    }
    return [service for service, is_due in due.items() if is_due]


def _maintain(table: TableDefinition, index: TableIndex, timeline: Timeline, tasks: TaskRunner) -> None:
    if not due_services(timeline, table.require_settings().maintenance):
        return
    # Another process may have changed them since this one opened the table.
    settings = load_definition(table.storage).require_settings()
    for service in _with_metadata(due_services(timeline, settings.maintenance), table):
        if service == Action.COMPACTION:
            _compact(table, index, tasks)
            continue
        if service == Action.CLUSTERING:
            _cluster(table, index, timeline, tasks)
            continue
        leased = table_service(table, index, f"inline {service}", patience=_PATIENCE_SECONDS)
        with leased as (definition, fence):
            if service == _METADATA:
                compact_metadata(fence, least=DELTACOMMITS_OF_COMPACTION)
            elif service == Action.CLEAN:
                retained = settings.maintenance.cleaner_commits_retained
                clean(definition, retained, fence, most_files=_MOST_FILES, keep_journals=True)
                purge_index(definition, index, retained, fence)
            else:
                archive(definition, settings.maintenance.keep_min_commits, fence, most_commits=_MOST_COMMITS)


def _with_metadata(services: list[str], table: TableDefinition) -> list[str]:
    """The services, and before a clean a look whether the metadata table is to be compacted: a clean comes often enough."""
    if Action.CLEAN not in services or not table.properties.metadata_partitions:
        return services
    place = services.index(Action.CLEAN)
    return [*services[:place], _METADATA, *services[place:]]


def _compact(table: TableDefinition, index: TableIndex, tasks: TaskRunner) -> None:
    choice = CompactionChoice(
        _LEAST_SHARE, _MOST_COMPACTED * table.require_settings().target_file_size, _BYTES_FOR_OPENING
    )
    Compactions(tasks, 1, lambda _: None, choice, patience=_PATIENCE_SECONDS).run(table, index)


def _cluster(table: TableDefinition, index: TableIndex, timeline: Timeline, tasks: TaskRunner) -> None:
    if planned_regroupings(index, Snapshot(table, timeline)):
        most = _MOST_TARGETS * table.require_settings().target_file_size
        cluster(
            table,
            index,
            ClusteringChoice(most_bytes=most),
            tasks=tasks,
            attempts=1,
            on_step=lambda _: None,
            patience=_PATIENCE_SECONDS,
        )


def _commits_since(timeline: Timeline, time: str | None) -> int:
    return sum(write.time > (time or "") for write in timeline.completed_writes)


def _is_nth(count: int, every: int) -> bool:
    return count > 0 and count % every == 0
