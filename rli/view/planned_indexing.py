"""The indexings that are on the timeline and not completed: Hudi's indexer builds partitions of the metadata table by their plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rli.errors import ConflictError, CorruptTableError
from rli.hudi.properties import TableProperties
from rli.hudi.timeline.indexing_plan import IndexingPlan
from rli.hudi.timeline.instant import Action, Instant, InstantState
from rli.hudi.timeline.timeline import Timeline
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class PendingIndexing:
    """An indexing that is on the timeline and not completed, of any engine.

    Attributes:
        instant: on the timeline: requested, or inflight once an indexer works on it.
        plan: what it is to build.
    """

    instant: Instant
    plan: IndexingPlan

    @property
    def partitions(self) -> frozenset[str]:
        """The partitions of the metadata table that it is to build."""
        return frozenset(self.plan.partitions)

    @property
    def is_begun(self) -> bool:
        """Whether an indexer of Hudi works on it, or died while it did."""
        return _is_begun(self.instant)

    def conflict(self, table: TableDefinition, partition: str, problem: str, wait: str) -> ConflictError:
        """The error of who must wait for one of its partitions: a sentence on the problem, and how to wait."""
        return ConflictError(
            f"{problem}: table={table.location} partition={partition} indexing={self.instant.time}",
            instants=(self.instant.time,),
            remedy=f"{wait}; if the indexer is dead, abort the indexing: rli metadata disable TABLE --partitions {partition}",
        )

    def unlisted(self, properties: TableProperties) -> frozenset[str]:
        """The partitions that readers do not rely on yet."""
        return self.partitions - {*properties.metadata_partitions}


@dataclass(frozen=True, slots=True)
class DamagedIndexing:
    """A pending indexing whose plan cannot be read.

    Attributes:
        instant: on the timeline.
        error: names the file.
    """

    instant: Instant
    error: CorruptTableError

    @property
    def is_begun(self) -> bool:
        """As that of ``PendingIndexing``."""
        return _is_begun(self.instant)


def pending_indexings(timeline: Timeline) -> list[PendingIndexing]:
    """The pending indexings of a timeline, the oldest first.

    Raises:
        CorruptTableError: a plan cannot be read; names the file.
    """
    return _with_plans(timeline, _pending(timeline))


def begun_indexings(timeline: Timeline) -> list[PendingIndexing]:
    """The pending indexings that an indexer of Hudi has begun; raises as ``pending_indexings``, but for their plans alone."""
    return _with_plans(timeline, filter(_is_begun, _pending(timeline)))


def readable_indexings(timeline: Timeline) -> tuple[list[PendingIndexing], list[DamagedIndexing]]:
    """The pending indexings, the oldest first, and apart from them those whose plans cannot be read."""
    readable, damaged = list[PendingIndexing](), list[DamagedIndexing]()
    for instant in _pending(timeline):
        try:
            readable += _with_plans(timeline, [instant])
        except CorruptTableError as error:
            damaged.append(DamagedIndexing(instant, error))
    return readable, damaged


def _pending(timeline: Timeline) -> list[Instant]:
    return [one for one in timeline.pending if one.action == Action.INDEXING]


def _is_begun(instant: Instant) -> bool:
    # The inflight instants of rli have content.
    return instant.state is InstantState.INFLIGHT and not instant.size


def _with_plans(timeline: Timeline, instants: Iterable[Instant]) -> list[PendingIndexing]:
    found = [(instant, _path(timeline, instant)) for instant in instants]
    plans = [(instant, path, timeline.storage.read_bytes(path)) for instant, path in found]
    return [
        PendingIndexing(instant, IndexingPlan.from_avro(content, path))
        for instant, path, content in plans
        # Else the indexing has ended since the timeline was loaded.
        if content is not None
    ]


def indexings_of(timeline: Timeline, partitions: Collection[str]) -> list[PendingIndexing]:
    """The pending indexings that build any of some partitions, as far as their plans can be read."""
    readable, _ = readable_indexings(timeline)
    return [one for one in readable if not one.partitions.isdisjoint(partitions)]


def partitions_of(properties: TableProperties, indexings: Iterable[PendingIndexing]) -> tuple[str, ...]:
    """The partitions of the metadata table: listed ones, those that are being built, and those that are scheduled to be."""
    scheduled = sorted(name for one in indexings for name in one.partitions)
    return tuple(dict.fromkeys((*properties.all_metadata_partitions, *scheduled)))


def _path(timeline: Timeline, instant: Instant) -> str:
    return timeline.layout.pending_path(instant.time, instant.action, InstantState.REQUESTED)
