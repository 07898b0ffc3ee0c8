"""Are the keys of a transaction free? Nobody has changed them since its snapshot, and no prepared transaction holds them.

The answer holds for one state of the commit log. That nothing comes in between is left to the append right behind
that state.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.changed_keys import ChangedKeys
from rli.index.record.alone.key_watch import Verdict
from rli.index.record.alone.prepared import require_not_held
from rli.index.record.alone.staged_changes import StagedChanges
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.state import LogState


class KeyCheck:
    """Checks the keys of one transaction; called again, it checks against what is new.

    Args:
        index: the index.
        writer: identity of the transaction.
        snapshot: the commit sequence that it builds on.
        changes: that it has staged.
    """

    def __init__(self, index: StoredEntries, writer: str, snapshot: int, changes: StagedChanges) -> None:
        self._index = index
        self._writer = writer
        self._snapshot = snapshot
        self._changes = changes
        self._free: set[str] = set()
        # An earlier check may have gone on from here before it failed, and keys may have been staged since.
        changes.hashed.restart(snapshot)

    def checked(self, log: LogState) -> LogState:
        """The log up to where the keys are free; at least up to ``log``, all of which is applied.

        Raises:
            ConflictError: somebody has changed a key, or holds it.
            ChunksGoneError: the staged changes are not in the store any more.
        """
        unchanged = self._unchanged(log)
        # After the log was read, and for that state of it: a transaction announced later makes this writer's append
        # fail (P35).
        require_not_held(self._index, self._shared, self._writer, unchanged, self._free)
        return unchanged

    def _unchanged(self, log: LogState) -> LogState:
        if not self._changes:
            return log
        # Without commits since the snapshot, there is nothing to compare hashes with.
        watch = self._changes.watched() if log.head > self._snapshot else self._changes.hashed
        # The usual case: a few small commits came in between, and their keys are not among ours. No key is looked up.
        if watch.follow(log) is Verdict.UNCHANGED:
            return log
        limits = self._index.limits
        keys_at_once = limits.keys_looked_up
        while (reached := self._looked_up(log, keys_at_once)) is None:
            log = apply_transactions(self._index)
            keys_at_once = max(keys_at_once // 4, limits.fewest_looked_up)
        return reached

    def _looked_up(self, log: LogState, keys_at_once: int) -> LogState | None:
        """Look all staged keys up as of the log, and follow it meanwhile; None if it grew too fast for that."""
        watch = self._changes.watched()
        # Before the look-ups: each key is looked up as of ``log.head`` or later, so what comes behind it is left to the
        # watch.
        watch.restart(log.head)
        reached = log
        changed = ChangedKeys(self._index, self._snapshot)
        for keys in self._changes.keys(keys_at_once):
            changed.add(keys, self._index.get(keys, log.head))
            # Once there is a conflict, the rest is looked up to count it.
            if not changed:
                reached = self._index.log.refresh()
                # A hash that matches is no conflict yet. The keys are looked up once more, fewer at a time, as of a
                # newer log.
                if watch.follow(reached) is not Verdict.UNCHANGED:
                    return None
        changed.require_none()
        return reached

    def _shared(self, record_keys: pa.Array) -> pa.Array:
        """Those of some keys that this transaction has staged, too; its chunks are read only if it seems so."""
        found = self._changes.watched().among(record_keys)
        if not len(found):
            return found
        parts = self._changes.keys(self._index.limits.keys_looked_up)
        own = (keys.filter(pc.is_in(keys, value_set=found)) for keys in parts)
        return pa.concat_arrays(list(own))
