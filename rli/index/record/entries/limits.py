"""How much a record index does, reads or keeps at a time."""

from __future__ import annotations

from dataclasses import dataclass

from rli.file_group.journal_list import SMALL_JOURNALS
from rli.locations import BATCH_KEYS


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """Bounds of the work on a record index. Not stored: processes with other limits share an index.

    Attributes:
        keys_of_thread: keys that a thread looks up at a time: their arrays are small enough that the C library keeps their
            memory for the next ones, and large enough that threads rarely wait for Python's lock.
        rows_per_chunk: staged changes that one control record of the store has at most.
        transactions_kept: so many of the newest transactions keep their staged changes if these are small: others check
            against them (P29).
        bytes_kept: of staged changes that are small enough for that.
        keys_looked_up: of a transaction, between two looks at the commit log; fewer where more transactions are committed (P29).
        fewest_looked_up: of them.
        look_ups_per_read: to read the changes of one transaction costs about as much as so many look-ups.
        commit_keys: new keys of a commit that are applied together; a commit of more is applied section by section.
        commit_keys_side_by_side: the same for a store in servers, which several tasks write at a time. Two tasks that write the same part
            of the store wait for each other, or merge again what the other one has written.
        share_of_journals: bytes of journals that a task applies together, less where other tasks would have nothing to do: a
            store that keeps keys sorted takes one sorted run of many keys in half the time that it takes for several of few.
        small_journals: bytes of a commit's journals up to which the process that finds the commit applies it.
        least_tombstones: a purge reads the whole index, so it waits for so many of them at least.
        entries_per_tombstone: and for one tombstone to so many live entries.
        unique_values: new values of a commit that are compared at a time; the files of a commit with more are read more than once.
    """

    keys_of_thread: int = 1 << 19
    rows_per_chunk: int = 100_000
    transactions_kept: int = 64
    bytes_kept: int = 512 << 10
    keys_looked_up: int = 16_384
    fewest_looked_up: int = 1024
    look_ups_per_read: int = 1024
    commit_keys: int = BATCH_KEYS
    commit_keys_side_by_side: int = 1 << 17
    share_of_journals: int = 8 << 20
    small_journals: int = SMALL_JOURNALS
    least_tombstones: int = 1024
    entries_per_tombstone: int = 4
    unique_values: int = 1 << 21


DEFAULT_LIMITS = IndexLimits()
