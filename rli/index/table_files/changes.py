"""Which keys others changed since a state: those in the file slices that changed since then (docs/protocol.md, P36)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa

from rli.file_group.journal import Journal
from rli.index.contract import ChangedKeys
from rli.index.locators import FileLocator
from rli.index.reports import NO_KEYS, SomeKeys, sum_of
from rli.model import Scope
from rli.tasks import TaskRunner
from rli.view.diff import diff
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ChangedSlices:
    """Slices of one state of the table. Picklable.

    Attributes:
        snapshot: the state.
        locator: of that state.
        slices: those that another state does not have.
    """

    snapshot: Snapshot
    locator: FileLocator
    slices: Sequence[FileSlice]


class FileChanges(ChangedKeys):
    """Looks keys up again in the file slices that changed.

    A key that the state did not hold, and that is there now, is in one of them. A key that the state held is checked by
    its file group, which the write has read.

    Args:
        before: the slices of the earlier state that the table has no more.
        now: the slices that the earlier state did not have.
        instants: what was committed or undone since.
    """

    def __init__(self, before: ChangedSlices, now: ChangedSlices, instants: tuple[str, ...]) -> None:
        self._before = before
        self._now = now
        self.instants = instants

    @property
    def slices(self) -> Sequence[FileSlice]:
        """The slices that the earlier state did not have."""
        return self._now.slices

    def placed_by(self, journals: Sequence[Journal], tasks: TaskRunner) -> SomeKeys:
        return sum_of(tasks.run(partial(self._placed_in, journals), self._now.slices))

    def among(self, record_keys: pa.Array) -> SomeKeys:
        then, since = self._places_in(self._before, record_keys), self._places_in(self._now, record_keys)
        differing = sorted({key for key, _ in then ^ since})
        return SomeKeys.of([pa.array(differing, pa.string())])

    def _places_in(self, slices: ChangedSlices, record_keys: pa.Array) -> set[tuple[str, str]]:
        """Which of some keys changed slices hold, each with its partition path: a clustering changes neither."""
        found = slices.locator.probe(slices.slices, record_keys)
        return set(zip(*(found.column(name).to_pylist() for name in ("record_key", "partition_path")), strict=True))

    def _placed_in(self, journals: Sequence[Journal], file_slice: FileSlice) -> SomeKeys:
        """Of the keys that journals place, those that a changed slice holds: a task."""
        concerned = [journal for journal in journals if self._concerns(journal, file_slice)]
        if not concerned:
            return NO_KEYS
        storage = self._now.snapshot.table.storage
        placed = chain.from_iterable(journal.placed_keys(storage) for journal in concerned)
        return SomeKeys.of(self._now.locator.held(file_slice, placed))

    def _concerns(self, journal: Journal, file_slice: FileSlice) -> bool:
        return (
            self._now.locator.scope is Scope.GLOBAL or journal.group.partition_path == file_slice.group.partition_path
        )


def changes_between(
    before: Snapshot, now: Snapshot, locator_of: Callable[[Snapshot], FileLocator]
) -> FileChanges | None:
    """What changed from one state to a later one; None if nothing did.

    Args:
        before: the earlier state.
        now: the later one.
        locator_of: locates keys as of a state.
    """
    found = diff(before, now)
    if found is None:
        return None
    return FileChanges(
        ChangedSlices(before, locator_of(before), [change.before for change in found.groups if change.before]),
        ChangedSlices(now, locator_of(now), [change.after for change in found.groups if change.after]),
        found.instants,
    )
