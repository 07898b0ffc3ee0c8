"""Record keys that an undo would bring back: under global scope each may be in the table once.

A table may have had an index of partition scope when a commit was made, which took one key from several partitions, or
from a partition beside another one. Undone under global scope, that commit would put the key into the table twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.file_group.journal import Journal
from rli.file_group.journal_list import load_journals
from rli.hudi.timeline.instant import Instant
from rli.index.contract import IndexState, TableIndex
from rli.model import Scope
from rli.storage import Storage

_PAIR: Final = ["record_key", "partition_path"]
_SCHEMA: Final = pa.schema([(_PAIR[0], pa.string()), (_PAIR[1], pa.string()), ("rank", pa.int64())])
_SAMPLE: Final = 5


def require_unique_after(index: TableIndex, state: IndexState, commits: Sequence[Instant]) -> None:
    """Pass an undo after which the table holds each record key once in the scope of its index.

    Commits without journals, which other engines make, are not looked into, nor those that are undone with them.

    Args:
        index: of the table.
        state: the present one; the caller holds the lease.
        commits: to be undone, the newest first.

    Raises:
        UnsupportedTableError: some keys would be in several partitions.
    """
    storage = state.snapshot.table.storage
    journals = [_journals(storage, commit.time) for commit in commits]
    if index.scope is Scope.PARTITION or None in journals:
        return
    known = [of_one or [] for of_one in journals]
    brought = pa.concat_tables([_SCHEMA.empty_table(), *_changes(storage, known, "prior_")])
    if not brought.num_rows:
        return
    keys = pc.unique(brought.column("record_key"))
    taken = (part.filter(pc.is_in(part.column("record_key"), value_set=keys)) for part in _changes(storage, known, ""))
    # The oldest commit that changed a pair of a key and a partition says whether the pair is there without all of them.
    touched = pa.concat_tables([brought, *taken]).group_by(_PAIR).aggregate([("rank", "max")])
    back = touched.filter(pc.equal(pc.bit_wise_and(touched.column("rank_max"), 1), 1)).select(_PAIR)
    stored = state.locator().locate_all(keys).select(_PAIR).cast(back.schema)
    there = pa.concat_tables([back, stored.join(touched, _PAIR, join_type="left anti").select(_PAIR)])
    counts = pc.value_counts(there.column("record_key"))
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(several):
        raise UnsupportedTableError(
            f"record keys would be in several partitions again: instant={commits[-1].time} count={len(several)} "
            f"keys={several.slice(0, _SAMPLE).to_pylist()}",
            remedy=(
                "they were unique in their partition only when that was written: give the table an index with "
                "partition scope first (rli index migrate TABLE --to URL)"
            ),
        )


def _journals(storage: Storage, instant: str) -> list[Journal] | None:
    try:
        return load_journals(storage, instant)
    except CorruptTableError:
        return None


def _changes(storage: Storage, journals: Sequence[Sequence[Journal]], prefix: str) -> Iterator[pa.Table]:
    """Where commits (the newest first) took keys from (``prior_``), or put them (no prefix), with ``_SCHEMA``.

    The rank rises from newer commits to older ones; it is odd for what a commit took.
    """
    for age, of_one in enumerate(journals):
        # Of one commit, "took" ranks above "put": a key that went elsewhere within its partition was there before the
        # commit, and is there again without it.
        rank = pa.scalar(2 * age + bool(prefix), pa.int64())
        for journal in of_one:
            for part in journal.relocations(storage):
                chosen = part.filter(pc.is_valid(part.column(f"{prefix}file_id")))
                columns = [chosen.column("record_key"), chosen.column(f"{prefix}partition_path")]
                yield pa.table([*columns, pa.repeat(rank, chosen.num_rows)], schema=_SCHEMA)
