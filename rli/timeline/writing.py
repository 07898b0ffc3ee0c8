"""Writing instants of table version 6: one file for each state that an instant reaches."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from rli.storage import Storage
from rli.timeline.instant import Action, State
from rli.timeline.timeline import META_FOLDER


@dataclass(frozen=True, slots=True)
class TimelineWriter:
    """Moves instants from state to state on the timeline of a table of version 6.

    Every state is a file that is created only if it is not there, so two writers never both reach a state of one
    instant; what that needs of the file system is said at ``Storage.create``.

    Attributes:
        storage: the table.
    """

    storage: Storage

    def request(self, time: str, action: str, content: bytes = b"") -> bool:
        """Announce an instant; False if that time and action are taken.

        Args:
            time: 17 digits.
            action: ``commit``, ``rollback`` and so on.
            content: the plan, for actions that keep one; a commit keeps none.
        """
        return self._create(time, action, State.REQUESTED, content)

    def start(self, time: str, action: str, content: bytes = b"") -> bool:
        """Say that work on a requested instant begins; False if that was said before."""
        return self._create(time, action, State.INFLIGHT, content)

    def complete(self, time: str, action: str, content: bytes) -> bool:
        """Publish an instant with its metadata, all or nothing; False if it is published already."""
        return self._create(time, action, State.COMPLETED, content)

    def withdraw(self, time: str, action: str) -> None:
        """Take a publication back: the instant is inflight again, its files are no longer visible."""
        self.storage.delete_files([instant_path(time, action, State.COMPLETED)])

    def remove(self, time: str, action: str) -> None:
        """Remove an instant with all its states, the furthest first; states that it never reached are passed over."""
        self.storage.delete_files(instant_path(time, action, state) for state in reversed(State))

    def _create(self, time: str, action: str, state: State, content: bytes) -> bool:
        return self.storage.create(instant_path(time, action, state), content)


def instant_path(time: str, action: str, state: State) -> str:
    """File of an instant of table version 6, relative to the table."""
    if state is State.COMPLETED:
        name = f"{time}.{action}"
    elif state is State.INFLIGHT and action == Action.COMMIT:
        name = f"{time}.inflight"
    else:
        name = f"{time}.{action}.{state}"
    return posixpath.join(META_FOLDER, name)
