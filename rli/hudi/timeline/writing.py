"""Writing instants: one file for each state that an instant reaches."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from uuid import uuid4

from rli.hudi.timeline.instant import InstantState, completed_action
from rli.hudi.timeline.layouts import TimelineLayout
from rli.storage import Draft, Storage


@dataclass(frozen=True, slots=True)
class TimelineWriter:
    """Moves instants from state to state on the timeline of a table.

    Requested and inflight are files that are created only if they are not there, so two writers never both reach
    such a state of one instant. Who completes or withdraws an instant holds the table's lease.

    A plan survives a power cut before it is carried out, a publication before it is acknowledged (docs/protocol.md, P17).
    A state without content is as durable as the next state that has some.

    Attributes:
        storage: the table.
        layout: of its timeline.
    """

    storage: Storage
    layout: TimelineLayout

    def request(self, time: str, action: str, content: bytes = b"") -> bool:
        """Announce an instant; False if that time and action are taken.

        Args:
            time: 17 digits.
            action: ``commit``, ``rollback`` and so on.
            content: the plan, for actions that keep one; a commit keeps none.
        """
        return self._create(self.layout.pending_path(time, action, InstantState.REQUESTED), content)

    def request_from(self, plan: Draft, time: str, action: str) -> bool:
        """Announce an instant whose plan is a draft; False if that time and action are taken.

        Raises:
            FileNotFoundError: the draft was taken back.
        """
        return self._publish(plan, self.layout.pending_path(time, action, InstantState.REQUESTED))

    def requested(self, time: str, action: str) -> bytes | None:
        """What ``request`` was given; None if the instant was not requested."""
        return self.storage.read_bytes(self.layout.pending_path(time, action, InstantState.REQUESTED))

    def start(self, time: str, action: str, content: bytes = b"") -> bool:
        """Say that work on a requested instant begins; False if that was said before."""
        return self._create(self.layout.pending_path(time, action, InstantState.INFLIGHT), content)

    def start_from(self, content: Draft, time: str, action: str) -> bool:
        """Say that work on a requested instant begins, with a draft's content; False if that was said before.

        Raises:
            FileNotFoundError: the draft was taken back.
        """
        return self._publish(content, self.layout.pending_path(time, action, InstantState.INFLIGHT))

    def completed(self, time: str, action: str) -> bytes | None:
        """The metadata of a completed instant; None if it is not completed."""
        return next((self.storage.read_bytes(path) for path in self._completed_paths(time, action)), None)

    def started(self, time: str, action: str) -> bytes | None:
        """What ``start`` was given; None if work on the instant has not begun."""
        return self.storage.read_bytes(self.layout.pending_path(time, action, InstantState.INFLIGHT))

    def publish(self, metadata: Draft, time: str, action: str, completion_time: str) -> bool:
        """Publish an instant whose metadata is a draft; False if it is published already.

        What the caller does next, ``flush`` or a sync of the index, makes that survive a power cut.

        Args:
            metadata: of the instant.
            time: of the instant.
            action: of the instant.
            completion_time: greater than every time that the timeline shows; kept in layout 2 alone.

        Raises:
            FileNotFoundError: the draft was taken back.
        """
        if self.is_completed(time, action):
            return False
        return self.storage.publish(metadata, self.layout.completed_path(time, action, completion_time))

    def is_completed(self, time: str, action: str) -> bool:
        """Whether an instant is published."""
        return bool(self._completed_paths(time, action))

    def withdraw(self, time: str, action: str) -> None:
        """Take a publication back: the instant is inflight again, its files are no longer visible."""
        paths = self._completed_paths(time, action)
        self.storage.delete_files(paths)
        if paths:
            self.flush()

    def withdraw_content(self, time: str, action: str, content: bytes) -> None:
        """Take a publication with this content back; one with another content stays.

        In layout 1 a name may come back with another content, after this process was paused. So the file is taken
        away first, where nobody else touches it, and put back if it is another one.
        """
        for path in self._completed_paths(time, action):
            taken = posixpath.join(posixpath.dirname(path), f".{posixpath.basename(path)}.{uuid4().hex}.taken")
            try:
                self.storage.move(path, taken)
            except FileNotFoundError:
                continue
            found = self.storage.read_bytes(taken) or b""
            if found != content:
                self.storage.create(path, found)
            self.storage.delete_files([taken])

    def remove(self, time: str, action: str) -> None:
        """Remove an instant with all its states, the furthest first; states that it never reached are passed over."""
        self.withdraw(time, action)
        self.remove_pending(time, action)

    def stop(self, time: str, action: str) -> None:
        """Say that nobody works on an instant any more: it is requested again."""
        self.storage.delete_files([self.layout.pending_path(time, action, InstantState.INFLIGHT)])

    def remove_pending(self, time: str, action: str) -> None:
        """Remove the requested and inflight states of an instant."""
        self.storage.delete_files(self.pending_paths(time, action))

    def pending_paths(self, time: str, action: str) -> list[str]:
        """The files that say how far an instant got before it completed, the furthest first."""
        return [
            self.layout.pending_path(time, action, state) for state in (InstantState.INFLIGHT, InstantState.REQUESTED)
        ]

    def flush(self) -> None:
        """Make what the timeline shows, and shows no more, survive a power cut."""
        self.storage.flush([self.layout.folder])

    def _create(self, path: str, content: bytes) -> bool:
        created = self.storage.create(path, content)
        if content:
            self.flush()
        return created

    def _publish(self, draft: Draft, path: str) -> bool:
        published = self.storage.publish(draft, path)
        self.flush()
        return published

    def _completed_paths(self, time: str, action: str) -> list[str]:
        if not self.layout.keeps_completion_times:
            path = self.layout.completed_path(time, action, "")
            return [path] if self.storage.exists(path) else []
        return [
            file.path
            for file in self.storage.list_files(self.layout.folder)
            if file.name.startswith(f"{time}_") and file.name.endswith(f".{completed_action(action)}")
        ]
