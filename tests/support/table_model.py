"""What a table promises, as plain dicts: the model that state machines and crash tests compare with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Version: TypeAlias = tuple[str, str, int, float]
"""A record of the tests' tables: id, city, ts, v."""

Rows: TypeAlias = dict[str, Version]


@dataclass(frozen=True)
class Outcome:
    """A table's rows after a write, and what became of each key.

    Attributes:
        rows: by record key.
        counts: inserted, updated, moved, deleted, unchanged.
    """

    rows: Rows
    counts: tuple[int, int, int, int, int]

    @property
    def commits(self) -> bool:
        """Whether anything changed, so that there is a commit."""
        return any(self.counts[:4])


def upserted(rows: Rows, batch: Iterable[Version], *, keep: bool = False) -> Outcome:
    """Rows after an upsert in a table with key ``id``, partitions by ``city`` and ordering ``ts``."""
    newest: Rows = {}
    for version in batch:
        key = version[0]
        if key not in newest or version[2] >= newest[key][2]:
            newest[key] = version
    after = dict(rows)
    inserted = updated = moved = unchanged = 0
    for key, (_, city, ts, value) in newest.items():
        stored = rows.get(key)
        if stored is None:
            inserted += 1
        elif stored[2] > ts:
            unchanged += 1
            continue
        elif stored[1] == city or keep:
            updated += 1
            city = stored[1]  # noqa: PLW2901  (the record stays where it is)
        else:
            moved += 1
        after[key] = (key, city, ts, value)
    return Outcome(after, (inserted, updated, moved, 0, unchanged))


def inserted(rows: Rows, batch: Iterable[Version]) -> Outcome:
    """Rows after an insert, which takes the first record of each key."""
    first: Rows = {}
    for version in batch:
        first.setdefault(version[0], version)
    new = {key: version for key, version in first.items() if key not in rows}
    return Outcome({**rows, **new}, (len(new), 0, 0, 0, len(first) - len(new)))


def deleted(rows: Rows, keys: Iterable[str]) -> Outcome:
    """Rows after a delete."""
    distinct = set(keys)
    gone = distinct & rows.keys()
    after = {key: version for key, version in rows.items() if key not in gone}
    return Outcome(after, (0, 0, 0, len(gone), len(distinct - gone)))


def overwritten(rows: Rows, batch: Iterable[Version], partitions: Iterable[str]) -> Outcome:
    """Rows after partitions, and those of a batch's records, were replaced by these records; stored ones are not compared."""
    came = upserted({}, batch).rows
    replaced = {version[1] for version in came.values()}.union(partitions)
    stay = {key: version for key, version in rows.items() if version[1] not in replaced and key not in came}
    held = [rows[key][1] if key in rows else None for key in came]
    updated = sum(place == version[1] for place, version in zip(held, came.values(), strict=True))
    new = held.count(None)
    gone = len(rows) - len(stay) - (len(came) - new)
    return Outcome({**stay, **came}, (new, updated, len(came) - new - updated, gone, 0))
