"""Whether the index of a column still has the entries of a state that a reader has loaded before others went on."""

from __future__ import annotations

from rli.hudi.timeline.timeline import Timeline
from rli.index.record.log.state import LogState
from rli.index.record.sync.result import FollowedState


def was_built_by(timeline: Timeline, log: LogState) -> bool:
    """Whether the index was built of a state no later than a timeline: one of a later state never had the entries removed before."""
    built = log.record_at(1)
    completed = {instant.time for instant in timeline.completed}
    return built is not None and all(time in completed or timeline.is_archived(time) for time in built.covers)


def has_all(timeline: Timeline, followed: FollowedState, floor: int) -> bool:
    """Whether a timeline has all commits up to a sequence of an index that has followed it, and perhaps more.

    Args:
        timeline: that the reader has loaded.
        followed: what the index has followed since.
        floor: the sequence; entries that went before may be gone.
    """
    if not floor or timeline.write_times == followed.timeline.write_times:
        return floor <= followed.sequence
    later = followed.timeline.write_times - timeline.write_times
    sequences = (followed.log.instants.sequence_of(time) or 0 for time in later)
    # What came after the timeline was loaded may be archived by now.
    return timeline.first == followed.timeline.first and all(sequence > floor for sequence in sequences)
