"""The locations of a micro-batch's keys, as the stream's state knows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyspark.sql import Row

from rli.index.following import Position, relocated, relocations_of, unseen_writes
from rli.index.locators import FileLocator, FoundLocations, Locator
from rli.locations import LOCATION_SCHEMA
from rli_spark.rows.row_batches import unpack
from rli_spark.streams.base import LOCATION, LOCATIONS
from rli_spark.streams.tagger import FOUND

POSITIONS: Final = "positions"
"""Column: the states of the table that the locations of a task are from."""

NOTHING: Final = ""
"""Position of a bucket without a state."""


def found_together(tables: Iterable[pa.Table]) -> pa.Table:
    """Tables of found locations as one; without rows if there are no tables."""
    return pa.concat_tables([LOCATIONS.empty_table(), *tables])


@dataclass(slots=True)
class KnownLocations:
    """The locations of a micro-batch's keys, as the stream's state knows them.

    Attributes:
        found: ``record_key``, ``partition_path`` and ``file_id`` of the keys that the table held.
        positions: the states of the table that the locations are from; empty strings for buckets without a state.
        is_wanting: whether they did not suffice, so that the state must be filled again.
    """

    found: pa.Table
    positions: frozenset[str]
    is_wanting: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_wanting = NOTHING in self.positions

    @classmethod
    def of(cls, rows: Iterable[Row]) -> KnownLocations:
        """From the rows of ``_WRITTEN`` of all tasks."""
        told = list(rows)
        found = found_together(unpack(bytes(row[FOUND])) for row in told)
        return cls(found, frozenset(position for row in told for position in row[POSITIONS]))

    def as_of(self, locator: FileLocator) -> Locator:
        """Locates the keys as of the state of a table's own locator: that one, where the stream's state cannot tell."""
        followed = None if self.is_wanting else self._followed(locator)
        if followed is None:
            self.is_wanting = True
            return locator
        return FoundLocations(followed, locator.scope)

    def _followed(self, locator: FileLocator) -> pa.Table | None:
        """The locations as of the locator's state, with ``LOCATION_SCHEMA``; None where journals do not tell."""
        snapshot = locator.snapshot
        unseen: set[str] = set()
        for position in self.positions:
            behind = unseen_writes(Position.from_string(position), snapshot)
            if behind is None:
                return None
            unseen.update(behind)
        instants = (write.time for write in snapshot.timeline.completed_writes if write.time in unseen)
        commits = [relocations_of(snapshot.table.storage, instant) for instant in instants]
        told = [commit for commit in commits if commit is not None]
        return _with_instants(relocated(self.found, told), locator) if len(told) == len(commits) else None


def _with_instants(locations: pa.Table, locator: FileLocator) -> pa.Table | None:
    """Locations with the instants of their file slices; None where one names a file group that is not there."""
    slices = {file_slice.group: file_slice.instant for file_slice in locator.candidates(None)}
    groups = zip(*(locations.column(name).to_pylist() for name in LOCATION[1:]), strict=True)
    instants = pa.array([slices.get(group) for group in groups], pa.string())  # type: ignore[call-overload]
    if instants.null_count:
        return None
    return pa.table([*(locations.column(name) for name in LOCATION), instants], schema=LOCATION_SCHEMA)
