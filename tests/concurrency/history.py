"""Histories of what several processes did to one table, and what each of them was told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tests.support.table_model import Version

Places: TypeAlias = Mapping[str, str | None]
"""Record key → partition path; None for a key that is not there."""


@dataclass(frozen=True)
class Upsert:
    """Insert, update or move records."""

    batch: tuple[Version, ...]


@dataclass(frozen=True)
class Insert:
    """Insert records with new keys."""

    batch: tuple[Version, ...]


@dataclass(frozen=True)
class Delete:
    """Delete by key."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Overwrite:
    """Replace the partitions of records, and others that are named, by the records."""

    batch: tuple[Version, ...]
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drop:
    """Remove all records of partitions."""

    partitions: tuple[str, ...]


@dataclass(frozen=True)
class Cluster:
    """Put small files together."""


@dataclass(frozen=True)
class Read:
    """Read all records."""


@dataclass(frozen=True)
class Lookup:
    """Ask the index where keys live."""

    keys: tuple[str, ...]


Operation: TypeAlias = Upsert | Insert | Delete | Overwrite | Drop | Cluster | Read | Lookup


@dataclass(frozen=True)
class Committed:
    """What an acknowledged write was told.

    Attributes:
        instant: None if nothing changed, so that nothing was committed.
        counts: inserted, updated, moved, deleted, unchanged.
    """

    instant: str | None
    counts: tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Refused:
    """A write that ended with an error, or with its process: it must not have taken place.

    Attributes:
        error: name of the error's class.
    """

    error: str


@dataclass(frozen=True)
class Found:
    """What a reader was shown, repeated keys included."""

    rows: tuple[Version, ...]


@dataclass(frozen=True)
class Located:
    """What a look-up was shown."""

    places: Places


@dataclass(frozen=True)
class Event:
    """One operation from its call to its return.

    Attributes:
        operation: what was asked for.
        outcome: what was told.
        called, returned: seconds of the machine's monotonic clock, which all its processes share.
        process: which one.
    """

    operation: Operation
    outcome: Committed | Refused | Found | Located
    called: float
    returned: float
    process: int = 0

    def __str__(self) -> str:
        return f"process {self.process} [{self.called:.4f}-{self.returned:.4f}] {self.operation} -> {self.outcome}"


PARTITIONS: Final = "xyz"


def by_partition(event: Event) -> Event:
    """An event of a table whose keys are unique in their partition, told of a table with a key for each of both."""
    operation, outcome = event.operation, event.outcome
    if isinstance(operation, Upsert | Insert):
        operation = type(operation)(tuple(map(_in_its_partition, operation.batch)))
    elif isinstance(operation, Overwrite):
        operation = replace(operation, batch=tuple(map(_in_its_partition, operation.batch)))
    elif isinstance(operation, Delete):
        operation = Delete(tuple(_scoped(key, partition) for key in operation.keys for partition in PARTITIONS))
        if isinstance(outcome, Committed):
            deleted = outcome.counts[3]
            outcome = Committed(outcome.instant, (0, 0, 0, deleted, len(set(operation.keys)) - deleted))
    if isinstance(outcome, Found):
        outcome = Found(tuple(map(_in_its_partition, outcome.rows)))
    return replace(event, operation=operation, outcome=outcome)


def places_by_partition(keys: Iterable[str], found: Iterable[tuple[str, str | None]]) -> Places:
    """The places of such keys, by the locations that a look-up of the record keys gave."""
    held = {_scoped(key, place) for key, place in found if place is not None}
    return {
        _scoped(key, partition): partition if _scoped(key, partition) in held else None
        for key in keys
        for partition in PARTITIONS
    }


def _in_its_partition(version: Version) -> Version:
    return (_scoped(*version[:2]), *version[1:])


def _scoped(key: str, partition: str) -> str:
    return f"{partition}/{key}"


@dataclass(frozen=True)
class History:
    """What happened to a table that was empty before.

    Attributes:
        commits: the instants of all commits, by their commit sequence.
        events: of all processes, in any order.
    """

    commits: tuple[str, ...]
    events: tuple[Event, ...]
