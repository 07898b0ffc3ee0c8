"""The registry of writers: each has a work folder, and gives signs of life under its instant.

The folder tells that there was a write, the record whether its writer lives. What a dead writer has left, published
or not, is decided by ``rli.commit.recovery``.
"""

from __future__ import annotations

import posixpath
import time
from typing import Final

from rli.coordination.contract import DisplacedWriter, Liveness, SignsOfLife
from rli.coordination.heartbeats import Heartbeats
from rli.coordination.liveness import MOST_KEPT_SECONDS, Holding
from rli.coordination.shared_records import SharedRecords
from rli.coordination.signs import WRITERS, replace_damaged
from rli.coordination.work_folders import began_with_former_index, note_beginning, writers_at_work
from rli.storage import Storage
from rli.view import paths

_AT_ONCE: Final = 0.0


def writer_record(instant: str) -> str:
    """Name of the shared record that says who writes an instant."""
    return f"{WRITERS}{instant}"


class RegisteredWriters:
    """Writers by their folders and records; ``rli.coordination.contract.Writers`` says what each method promises.

    Args:
        storage: the table's folder.
        records: of the table.
        liveness: of its writers.
        generation: of the index that this process goes by.
        heartbeats: that writers of Hudi look for; None if the table shares no lock with them.
    """

    def __init__(
        self,
        storage: Storage,
        records: SharedRecords,
        liveness: Liveness,
        generation: int,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._storage = storage
        self._records = records
        self._liveness = liveness
        self._generation = generation
        self._heartbeats = heartbeats

    def register(self, instant: str) -> SignsOfLife | None:
        """Note a write by its work folder; None if the instant is another writer's of rli."""
        signs = self._liveness.begin(instant)
        if signs is None:
            return None
        try:
            # By its folder the write is found, after a power cut too, whatever else is left of it.
            self._storage.make_folder(paths.work_folder(instant))
            note_beginning(self._storage, instant, self._generation)
            self._storage.flush([paths.WORK, posixpath.dirname(paths.WORK)])
        except BaseException:
            signs.release()
            raise
        return signs

    def beating(self, instant: str, signs: SignsOfLife) -> SignsOfLife:
        """The signs of life of a write, with heartbeats for writers of Hudi if the table shares a lock with them."""
        return signs if self._heartbeats is None else self._heartbeats.begin(instant, signs)

    def at_work(self) -> tuple[str, ...]:
        """The instants of all writes that may still be published, by living and by dead writers."""
        return writers_at_work(self._storage)

    def abandoned(self) -> list[str]:
        """The instants of writers that are dead; raises ``CorruptIndexError`` for a damaged record."""
        # A writer makes its record before its folder and removes it after it. So the folders are listed first: a
        # living writer that is found by its folder is then found by its record too.
        folders = {*self.at_work()}
        signs = self._liveness.signs()
        now = time.time()
        return sorted(
            instant for instant in folders | signs.keys() if instant not in signs or signs[instant].is_over(now)
        )

    def displace(self, instant: str) -> DisplacedWriter:
        """Take a writer for dead, even while it renews its record. The caller holds the lease."""
        # The placeholder is put in by comparison, again and again: a living writer may renew its record in between. Once the
        # placeholder is in, its renewals find a record that is not its own, and its next check fails.
        name = writer_record(instant)
        sign, was_displaced = None, False
        while (stored := self._records.read_control(name)) is not None:
            sign = Holding.from_json(stored)
            if sign.is_placeholder or self._records.compare_and_set(name, stored, sign.placeholder(_AT_ONCE).to_json()):
                was_displaced = sign.is_placeholder and sign.expires_at > _AT_ONCE
                break
        is_of_former = stored is None and began_with_former_index(self._storage, instant, self._generation)
        may_have_requested = not self._storage.exists(paths.unrequested(instant))
        return DisplacedWriter(
            instant, None if stored is None else sign, was_displaced, is_of_former, may_have_requested
        )

    def forget(self, writer: DisplacedWriter, *, was_published: bool) -> None:
        """Remove a displaced writer; keeps its instant from others if it may live."""
        if self._heartbeats is not None and writer.may_have_requested:
            self._heartbeats.remove(writer.instant)
        name = writer_record(writer.instant)
        stored = self._records.read_control(name)
        if stored is None:
            return
        left = Holding.from_json(stored)
        # Two writers with one instant would take each other's work for their own.
        is_kept = not (was_published or writer.was_displaced or left.process.is_known_dead)
        replacement = left.placeholder(time.time() + MOST_KEPT_SECONDS).to_json() if is_kept else None
        self._records.compare_and_set(name, stored, replacement)

    def replace_damaged(self) -> None:
        """Let writers with damaged records, and requests with such, count as dead."""
        replace_damaged(self._records)
