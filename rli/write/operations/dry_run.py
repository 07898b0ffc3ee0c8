"""Dry runs: what a write would do, told by the work of the write itself, up to the files that it would make.

Nothing is announced, and nothing is written into the table, its index or its lease. A dry run waits for no lease, and
does not clean up after dead writers: their writes are not part of the table. It builds on one state of the table, as a
write does; a state that others overtake is given up, and the next one is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from rli.commit.prepared_write import PreparedWrite
from rli.commit.readiness import require_synced
from rli.commit.step_clock import OnStep
from rli.commit.write_basis import WriteBasis
from rli.errors import IndexNotReadyError, InvalidInputError, RliError
from rli.file_group.write_context import WriteContext
from rli.hudi.timeline.instant import new_instant_time
from rli.index.any_index import is_built
from rli.index.contract import LOOKUP_SECONDS, IndexState, TableIndex
from rli.model import CommitResult
from rli.view.caller_metadata import CallerMetadata
from rli.view.caller_transactions import RepeatedTransactionError, require_first
from rli.view.definition import TableDefinition

_ATTEMPTS: Final = 8
_PAUSE_SECONDS: Final = 0.1


class DryRun(WriteBasis):
    """What a write would build on now.

    Args:
        table: the table.
        index: its index.
        on_step: called after each step.
        state: of both.
    """

    def __init__(self, table: TableDefinition, index: TableIndex, on_step: OnStep, state: IndexState) -> None:
        super().__init__(table, index, on_step)
        self.state = state
        self.instant = new_instant_time(table.now(), state.timeline.latest_time)
        self.require_writable_state()

    @property
    def saves(self) -> bool:
        return False

    def context(self, schema: pa.Schema, *, is_flushed: bool = True, kept: tuple[str, ...] = ()) -> WriteContext:
        return replace(super().context(schema, is_flushed=is_flushed, kept=kept), saves=False)


def dry_run(
    table: TableDefinition,
    index: TableIndex,
    on_step: OnStep,
    caller: CallerMetadata,
    work: Callable[[WriteBasis], PreparedWrite],
) -> CommitResult:
    """What a write would report, ``files_to_rewrite`` and ``dry_run`` included, and without an instant.

    Args:
        table: the table.
        index: its index.
        on_step: called after each step.
        caller: what the caller would keep with the commit.
        work: of the write.

    Raises:
        InvalidInputError: the write would be refused.
        IndexNotReadyError: the index has not seen all commits of the table, and no writer shows them to it in time.
        RliError: otherwise as the write.
    """
    for left in reversed(range(_ATTEMPTS)):
        state = _awaited_state(table, index)
        try:
            require_first(table.storage, state.timeline, caller)
            write = DryRun(table, index, on_step, state)
            return _told(work(write), write)
        except RepeatedTransactionError as repeated:
            return replace(repeated.result, dry_run=True)
        except InvalidInputError:
            raise
        except (OSError, RliError):
            # Files of the state may have been cleaned, and keys moved, by commits and services that came meanwhile.
            if not left or table.load_timeline().instants == state.timeline.instants:
                raise
    raise AssertionError(_ATTEMPTS)


def _awaited_state(table: TableDefinition, index: TableIndex) -> IndexState:
    """The state of an index that has seen all of the table; writers apply what they have committed meanwhile."""
    latest = time.monotonic() + LOOKUP_SECONDS
    while True:
        try:
            return require_synced(table, index)
        except IndexNotReadyError:
            # A look-up would apply the commits itself, which changes the index.
            if time.monotonic() >= latest or not is_built(index):
                raise
            time.sleep(_PAUSE_SECONDS)


def _told(prepared: PreparedWrite, write: DryRun) -> CommitResult:
    rewritten = (stat for stat in prepared.stats if stat.previous_instant is not None and stat.appended_to is None)
    groups = sorted(stat.group for stat in rewritten)
    slices = write.snapshot.slices.of_groups(groups)
    bases = [slices[group].base for group in groups]
    paths = tuple(base.path for base in bases if base is not None)
    return replace(prepared.result(None), dry_run=True, files_to_rewrite=paths)
