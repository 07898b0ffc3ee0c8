"""A write that is part of the table. Nothing that comes after that raises: it is logged, and the result says it.

Whatever this process leaves, the next writer does: it brings the index up to date, and removes the work folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from rli.commit.begun_write import BegunWrite
from rli.commit.outcome import Published
from rli.commit.prepared_write import PreparedWrite
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import SyncOptions
from rli.index.roles import IndexesColumns
from rli.model import Step
from rli.publication.markers import remove_markers
from rli.telemetry import events
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.registration import seems_to_have_other_index


class PublishedWrite:
    """A published write: the index follows it, then its work folder goes.

    Args:
        begun: the write, as it began.
        table: the definition, as it was when the write was published.
        prepared: the part of the write that was published.
    """

    def __init__(self, begun: BegunWrite, table: TableDefinition, prepared: PreparedWrite) -> None:
        self._begun = begun
        self._table = table
        self._prepared = prepared
        self._is_behind = False
        self._timeline: Timeline | None = None

    def report(self, step: Step) -> None:
        """Report a step to the caller."""
        with self._telling():
            self._begun.on_step(step)

    def confirm_regrouped(self) -> None:
        """Confirm what the index keeps of replaced file groups, if it keeps anything."""
        regrouped = self._prepared.regrouped
        if regrouped is not None:
            with self._telling():
                regrouped.completed(self._begun.table.storage, self._begun.instant, self._prepared.replaced)

    def bring_index_up_to_date(self) -> None:
        """Apply the commit to the index. If that fails, the next sync applies it."""
        begun = self._begun
        try:
            options = SyncOptions(
                begun.tasks,
                self._prepared.journals,
                on_registered=partial(self.report, Step.REGISTERED),
                on_part=partial(self.report, Step.CHANGES_APPLIED),
            )
            self._timeline = begun.index.sync(self._table, options).timeline
            if isinstance(begun.index, IndexesColumns):
                changed = self._prepared.changed_values
                held = {} if changed is None else {begun.instant: changed}
                begun.index.follow_columns(self._table, begun.tasks, held)
        except Exception as error:  # noqa: BLE001  (whatever it is, the commit stands)
            # The table may have another index now, which follows this commit; the former index may be gone (P37).
            self._is_behind = not seems_to_have_other_index(begun.table)
            if self._is_behind:
                events.COMMIT_INDEX_BEHIND.log(table=begun.table.location, instant=begun.instant, cause=error)

    def report_applied(self) -> None:
        """Report that the index has followed, if it has. The lease is free by now."""
        if self._timeline is not None:
            self.report(Step.APPLIED)

    def finished(self) -> Published:
        """Say what was done; the work folder is gone."""
        self.report(Step.FINISHED)
        begun = self._begun
        result = self._prepared.result(begun.instant, begun.clock.seconds, index_behind=self._is_behind)
        return Published(result, self._timeline)

    def tidy_up(self) -> None:
        """Remove the work folder and the writer's record; if this writer cannot, the next writer does."""
        begun, folder = self._begun, paths.work_folder(self._begun.instant)
        try:
            # The folder goes before the record. A folder without a record counts as left by a dead writer, and recovery
            # would take the lease for nothing.
            remove_markers(begun.table, begun.instant)
            begun.table.storage.delete_folder(folder)
        except OSError as error:
            events.LEFTOVER.log(folder=folder, cause=error)
        with self._telling():
            begun.announced.signs.release()

    def tell(self, error: Exception) -> None:
        """Log an error that came after the publication."""
        # With the former index of a table, what is kept in it is gone, or nobody asks for it.
        if not seems_to_have_other_index(self._begun.table):
            events.COMMIT_UNFINISHED.log_with_traceback(
                error, table=self._begun.table.location, instant=self._begun.instant
            )

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Log an error in place of raising it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever it is, the commit stands)
            self.tell(error)
