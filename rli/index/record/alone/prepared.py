"""Prepared transactions: their changes lie in the store, and only their caller can tell whether they take effect (P35).

A caller prepares a transaction, commits to its own table, and then commits the transaction. If it dies in between, its
table alone tells whether the transaction is to be committed. Until then no other transaction takes any of its keys.

A control record ``prepared/<writer>`` stands for each of them, with a state:

* *preparing*: the caller does not know yet that it is prepared. Then a record of the log announces it, behind all records
  that it was checked against.
* *prepared*: it waits for the decision.
* *committing* or *aborting*: it is decided. Any process that finds it finishes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from rli.errors import ConflictError, CorruptIndexError
from rli.index.record.alone import staging
from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.prepared_record import PREFIX, Prepared, State
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import TRANSACTION
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.staged import Staged
from rli.index.record.log.state import LogState
from rli.model import FileGroupId
from rli.processes import ProcessId

_SAMPLE: Final = 10


def all_prepared(index: StoredEntries) -> list[Prepared]:
    """All prepared transactions that are not finished."""
    return [Prepared.from_json(name, content) for name, content in index.store.scan_control(PREFIX)]


def read_prepared(index: StoredEntries, writer: str) -> Prepared | None:
    """The prepared transaction of a writer; None if it was finished, or never was one."""
    content = index.store.read_control(PREFIX + writer)
    return None if content is None else Prepared.from_json(PREFIX + writer, content)


def write_preparing(index: StoredEntries, preparing: Prepared) -> Prepared:
    """Write the record of a transaction that is being prepared; returns it as it is stored."""
    new = replace(preparing, state=State.PREPARING, fence=0, prepared_at=time.time(), process=ProcessId.current())
    content = new.to_json()
    # A repeat after a lost answer finds the record, and leaves it.
    index.store.compare_and_set(new.name, None, content)
    return replace(new, content=content)


def advance(
    index: StoredEntries, prepared: Prepared, state: State, *, fence: int = 0, metadata: Mapping[str, str] | None = None
) -> Prepared | None:
    """Give a transaction its next state; None if another process was first."""
    new = replace(
        prepared,
        state=state,
        fence=fence or prepared.fence,
        metadata=tuple(sorted({**dict(prepared.metadata), **(metadata or {})}.items())),
    )
    content = new.to_json()
    return replace(new, content=content) if index.store.compare_and_set(new.name, prepared.content, content) else None


def forget(index: StoredEntries, prepared: Prepared) -> bool:
    """Remove the record of a transaction; False if another process has changed it since it was read."""
    return index.store.compare_and_set(prepared.name, prepared.content, None)


def finish_decided(index: StoredEntries) -> list[Prepared]:
    """Finish what is decided; returns the transactions that wait for their decision, or are being prepared.

    A process that died while it prepared a transaction cannot have committed to its table: such a record is removed.
    """
    undecided = []
    for prepared in all_prepared(index):
        if prepared.state is State.COMMITTING:
            finish_commit(index, prepared)
        elif prepared.state is State.ABORTING:
            finish_abort(index, prepared)
        elif prepared.state is State.PREPARING and prepared.process.is_known_dead:
            # Known, not guessed: on another host the process may live, and its caller may be about to commit to its
            # table.
            forget(index, prepared)
        else:
            undecided.append(prepared)
    return undecided


def finish_commit(index: StoredEntries, committing: Prepared) -> LogRecord:
    """Append the record of a transaction that is to be committed, and apply it; may be repeated and raced."""
    while True:
        log = apply_transactions(index)
        record = committing.commit_in(log)
        if record is not None:
            forget(index, committing)
            return record
        groups: set[FileGroupId] = set()
        try:
            for changes in staging.read_chunks(index.store, committing.writer, committing.staged.chunks):
                groups |= changes.file_groups()
        except staging.ChunksGoneError:
            # Another process has appended and applied it meanwhile, and removed the chunks. Without a record in the
            # log, they are lost.
            if committing.commit_in(index.log.refresh()) is not None:
                continue
            raise CorruptIndexError(
                f"the staged changes of a prepared transaction are gone: url={index.url} instant={committing.instant}",
                remedy="the store went back to an earlier state: drop the index and build it again from the table's files",
            ) from None
        draft = transaction_draft(
            committing.writer, committing.instant, groups, committing.staged, dict(committing.metadata)
        )
        # Only behind a log that was searched for this very commit: of several processes that finish it, one append
        # succeeds.
        index.log.append(log, draft)


def finish_abort(index: StoredEntries, aborting: Prepared) -> None:
    """Remove all that a transaction has staged; may be repeated and raced."""
    # The chunks before the record: while the record is there, a process that finds it repeats the removal.
    staging.remove_others(index.store, aborting.writer, ())
    forget(index, aborting)


def transaction_draft(
    writer: str, instant: str, file_groups: Iterable[FileGroupId], staged: Staged, metadata: Mapping[str, str]
) -> RecordDraft:
    """The record that is the commit of a transaction."""
    return RecordDraft(
        instant=instant,
        action=TRANSACTION,
        writer=writer,
        located_at=(instant,),
        file_groups=tuple(sorted(file_groups)),
        staged=staged,
        metadata=tuple(sorted(metadata.items())),
    )


def require_not_held(
    index: StoredEntries,
    shared: Callable[[pa.Array], pa.Array],
    own: str,
    log: LogState | None = None,
    free: set[str] | None = None,
) -> None:
    """Raise ``ConflictError`` if prepared transactions of others hold any of some keys.

    Args:
        index: the index.
        shared: given keys that a transaction holds (string array, shape (n,)), those of them that the caller has, too.
        own: the writer of the transaction that asks.
        log: those that were announced behind this state of the log are passed over; they check against what is appended
            to it. None to pass over those that are being prepared.
        free: the writers of transactions that hold none of the keys, as an earlier call found: what a transaction holds
            never changes. This call adds its own findings.
    """
    free = set() if free is None else free
    for holder in all_prepared(index):
        if holder.writer == own or holder.writer in free or not _holds(holder, log):
            continue
        # Records first, then chunks. A holder that ends in between has no chunks, and then its commit, if any, is in a
        # newer log.
        taken = [found for held in _keys_of(index, holder) if len(found := shared(held))]
        if taken:
            raise _conflict(holder, pa.concat_arrays(taken).unique())
        free.add(holder.writer)


def _holds(prepared: Prepared, log: LogState | None) -> bool:
    if prepared.state is State.ABORTING:
        return False
    if log is None:
        return prepared.state is not State.PREPARING
    if prepared.state is State.COMMITTING and prepared.commit_in(log) is not None:
        # The entries of a commit in the log tell whether it changed a key.
        return False
    return prepared.is_announced_in(log)


def _keys_of(index: StoredEntries, holder: Prepared) -> Iterator[pa.Array]:
    try:
        for changes in staging.read_chunks(index.store, holder.writer, holder.staged.chunks):
            yield changes.record_keys
    except staging.ChunksGoneError:
        # It was decided meanwhile. If it was committed, the log has grown.
        return


def _conflict(holder: Prepared, keys: pa.Array) -> ConflictError:
    sample = tuple(keys.slice(0, _SAMPLE).to_pylist())
    return ConflictError(
        f"{len(keys)} record keys are held by a prepared transaction: keys={list(sample)} instant={holder.instant} "
        f"metadata={dict(holder.metadata)}",
        keys=sample,
        key_count=len(keys),
        instants=(holder.instant,),
        remedy=(
            "try again when its writer has committed it. If the writer died, decide about the transaction: "
            "RecordIndex.pending"
        ),
    )
