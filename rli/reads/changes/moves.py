"""Records that one commit took from one file group to another: each is one change, not a delete and an insert.

The journals of rli's own commits tell them. Of other commits they are found among the keys that went and came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError
from rli.file_group.journal import Journal
from rli.file_group.journal_list import load_journals
from rli.locations import named_groups
from rli.model import FileGroupId, Scope
from rli.reads.changes.planning import CommitDelta, GroupDelta, no_keys
from rli.reads.changes.sides import sides
from rli.tasks import InThreads
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """Keys that are new in a file group and went from another one: those that the commit wrote, and those that it carried."""

    written: pa.Array
    carried: pa.Array


def with_moves(snapshot: Snapshot, commit: CommitDelta, scope: Scope) -> tuple[GroupDelta, ...]:
    """The file groups of a commit with the keys that moved between them.

    Memory grows with the keys that the commit removed from file groups, and not with those that it added.

    Args:
        snapshot: the table.
        commit: the commit.
        scope: where a record key is unique: with partition scope, no record moves to another partition.

    Raises:
        CorruptTableError: a file is missing or damaged.
    """
    is_counted = commit.is_native and not commit.replaces and commit.moves is not None
    can_move = len(commit.groups) > 1 and any(group.before is not None for group in commit.groups)
    if not can_move or (is_counted and not commit.moves):
        return commit.groups
    journals = load_journals(snapshot.table.storage, commit.write.time) if is_counted else None
    if journals is not None:
        try:
            return _as_told(snapshot, commit, journals)
        except CorruptTableError:
            # A clean removes journals before it removes files: these tell the same.
            pass
    return _as_found(snapshot, commit, scope)


def _as_told(snapshot: Snapshot, commit: CommitDelta, journals: Sequence[Journal]) -> tuple[GroupDelta, ...]:
    moved: dict[FileGroupId, list[pa.Array]] = defaultdict(list)
    for journal in journals:
        for keys, paths, file_ids in journal.moved_keys(snapshot.table.storage):
            moved[journal.group].append(keys)
            prior = named_groups(paths, file_ids)
            for number, group in enumerate(prior.groups):
                if group is not None:
                    moved[group].append(keys.filter(pa.array(prior.codes == number)))
    return tuple(
        replace(delta, moved=pa.concat_arrays(moved[delta.group])) if delta.group in moved else delta
        for delta in commit.groups
    )


def _as_found(snapshot: Snapshot, commit: CommitDelta, scope: Scope) -> tuple[GroupDelta, ...]:
    tasks = InThreads()
    gone = list(tasks.run(partial(_gone, snapshot), commit.groups))
    if not any(map(len, gone)):
        return commit.groups
    left = _by_cell(commit.groups, gone, scope)
    arrivals = list(tasks.run(partial(_arrivals, snapshot, commit.write.time, left, scope), commit.groups))
    written = _by_cell(commit.groups, [one.written for one in arrivals], scope)
    carried = _by_cell(commit.groups, [one.carried for one in arrivals], scope)
    return tuple(
        replace(
            delta,
            moved=pa.concat_arrays([came.written, _among(went, written[_cell(delta, scope)])]),
            carried=pa.concat_arrays([came.carried, _among(went, carried[_cell(delta, scope)])]),
        )
        for delta, went, came in zip(commit.groups, gone, arrivals, strict=True)
    )


def _cell(delta: GroupDelta, scope: Scope) -> str:
    """Names the part of the table within which a record may move."""
    return delta.group.partition_path if scope is Scope.PARTITION else ""


def _by_cell(deltas: Sequence[GroupDelta], keys: Sequence[pa.Array], scope: Scope) -> dict[str, pa.Array]:
    found: dict[str, list[pa.Array]] = defaultdict(list)
    for delta, some in zip(deltas, keys, strict=True):
        found[_cell(delta, scope)].append(some)
    return {cell: pa.concat_arrays(some) for cell, some in found.items()}


def _gone(snapshot: Snapshot, delta: GroupDelta) -> pa.Array:
    """The keys that a file group held before a commit, and not after it."""
    if delta.before is None:
        return no_keys()
    before, after = sides(snapshot, delta)
    keys = before.keys()
    return keys if delta.after is None else _without(keys, after.keys())


def _arrivals(
    snapshot: Snapshot, instant: str, left: dict[str, pa.Array], scope: Scope, delta: GroupDelta
) -> _Arrivals:
    """The keys that a file group holds after a commit, and not before it, of those that went from somewhere."""
    if delta.after is None or not len(left[_cell(delta, scope)]):
        return _Arrivals(no_keys(), no_keys())
    before, after = sides(snapshot, delta)
    keys, times = after.written_keys()
    is_written = is_of(times, instant)
    came = pc.is_in(keys, value_set=left[_cell(delta, scope)])
    if delta.before is not None:
        came = pc.and_(came, pc.invert(pc.is_in(keys, value_set=before.keys())))
    return _Arrivals(keys.filter(pc.and_(came, is_written)), keys.filter(pc.and_(came, pc.invert(is_written))))


def is_of(times: pa.Array, instant: str) -> pa.Array:
    """Which of some records a commit has written, by the commits that they name."""
    return pc.fill_null(pc.equal(times, instant), False)


def _among(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.is_in(keys, value_set=others))


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
