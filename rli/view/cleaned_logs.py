"""Checks whether log files of a state may have been cleaned: the metadata of later commits does not tell."""

from __future__ import annotations

import posixpath

from rli.errors import InstantNotFoundError
from rli.hudi.timeline.clean_metadata import CleanPlan
from rli.hudi.timeline.instant import Action, Instant, InstantState
from rli.hudi.timeline.timeline import Timeline
from rli.view.snapshot import Snapshot


def require_not_cleaned(current: Snapshot, past: Snapshot) -> None:
    """Pass a past state of a merge-on-read table that its last clean has kept, and each state of a copy-on-write table.

    Raises:
        InstantNotFoundError: the clean does not say that it has kept the files of that state.
        CorruptTableError: the plan of the clean cannot be read; names it.
    """
    clean, as_of = _last_clean(current.timeline), past.timeline.as_of
    if past.table.properties.is_copy_on_write or clean is None or as_of is None or as_of >= clean.time:
        return
    plan = _plan_of(current.timeline, clean)
    kept = None if plan is None else plan.earliest_kept
    if kept is None or as_of < kept:
        raise InstantNotFoundError(
            f"log files of this instant may have been cleaned: instant={as_of} clean={clean.time} first_kept={kept}",
            remedy="choose a later instant",
        )


def cleaned_meanwhile(earlier: Snapshot, current: Snapshot) -> bool:
    """Whether a clean has begun in a merge-on-read table since an earlier state: the list of this state may lack files."""
    clean, former = _last_clean(current.timeline), _last_clean(earlier.timeline)
    return (
        not earlier.table.properties.is_copy_on_write
        and clean is not None
        and (former is None or clean.time > former.time)
    )


def files_of_pending_cleans(timeline: Timeline) -> frozenset[str]:
    """The names of the files that cleans at work delete: some may have gone already.

    Raises:
        CorruptTableError: the plan of a clean cannot be read; names it.
    """
    plans = [_plan_of(timeline, clean) for clean in timeline.pending if clean.action == Action.CLEAN]
    return frozenset(
        posixpath.basename(file)
        for plan in plans
        if plan is not None
        for files in plan.files.values()
        for file in files
    )


def _plan_of(timeline: Timeline, clean: Instant) -> CleanPlan | None:
    """What a clean deletes; None if nobody says."""
    path = timeline.layout.pending_path(clean.time, Action.CLEAN, InstantState.REQUESTED)
    content = timeline.storage.read_bytes(path)
    return CleanPlan.from_avro(content, path) if content else None


def _last_clean(timeline: Timeline) -> Instant | None:
    """The last clean, pending or completed: a pending clean may have removed files already."""
    cleans = (instant for instant in timeline.instants if instant.action == Action.CLEAN)
    return max(cleans, key=lambda clean: clean.time, default=None)
