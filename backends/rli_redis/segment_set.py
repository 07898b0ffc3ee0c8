"""Which segments there are: a set of their numbers, beside the control records.

A segment is confirmed before its first entry is written. So a segment that is confirmed but not there was lost by its
server. If that server went back to before the segment was made, the shard's watermark went back with it: the set has what the
watermark was when the segment was made. The set may lack segments, if its own server went back to an earlier state: nobody goes
by it alone.

Format 2 had announced segments before they were made; their numbers may still be members, without a sign before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from rli_redis.keyspace import Names, segment_number, segment_of
from rli_redis.scripts import NOTE_SEGMENTS
from rli_redis.segments import BYTES_PER_STATE
from rli_redis.servers import Command, Servers

WidthAndShard: TypeAlias = tuple[int, int]

_SET_ITSELF: Final = b"families"
_CONFIRMED: Final = b"+"
_SHARD: Final = b"shard "
_MADE: Final = b"made "


def begin_segment_set(servers: Servers, names: Names) -> None:
    """Make the set, unless it is there."""
    servers.execute(Command(servers.place(names), ("SADD", names.segments, _SET_ITSELF)))


def confirm(servers: Servers, names: Names, segments: Iterable[WidthAndShard], epoch: bytes = b"") -> bool:
    """Note segments that were made, and their shards.

    Args:
        servers: of the index.
        names: of its keys.
        segments: that are there.
        epoch: of the server with the list when they were found there; empty for any.

    Returns:
        False if that server has another epoch by now, so that they may be gone.
    """
    members = {member for segment in segments for member in (_confirmed(segment), _shard(segment[1]))}
    return not members or _add(servers, names, sorted(members), epoch)


def note_making(servers: Servers, names: Names, made: Mapping[WidthAndShard, tuple[int, int]], epoch: bytes) -> bool:
    """Note ``applied`` and ``greatest`` of the shard's watermark as they were when each segment was made; as ``confirm``."""
    members = [_MADE + b"%d %d %d" % (segment_number(*segment), *watermark) for segment, watermark in made.items()]
    return not members or _add(servers, names, sorted(members), epoch)


def makings(servers: Servers, names: Names) -> dict[WidthAndShard, tuple[int, int]]:
    """The least ``applied`` and ``greatest`` that a shard's watermark had when each segment was made, as far as it was noted."""
    found: dict[WidthAndShard, tuple[int, int]] = {}
    for member in _members(servers, names):
        if member.startswith(_MADE):
            number, applied, greatest = map(int, member.removeprefix(_MADE).split())
            known = found.get(segment_of(number), (applied, greatest))
            found[segment_of(number)] = min(known[0], applied), min(known[1], greatest)
    return found


def confirmed_shards(servers: Servers, names: Names, count: int) -> list[int] | None:
    """Those of the first ``count`` shards that have confirmed segments; None if the set is not there."""
    members = [_SET_ITSELF, *map(_shard, range(count))]
    is_set, *are_in = servers.execute(Command(servers.place(names), ("SMISMEMBER", names.segments, *members)))
    return [shard for shard, is_in in enumerate(are_in) if is_in] if is_set else None


def known_segments(servers: Servers, names: Names) -> list[WidthAndShard] | None:
    """All segments that are confirmed, in order; None if the set is not there."""
    members = _members(servers, names)
    if _SET_ITSELF not in members:
        return None
    return sorted(segment_of(int(member[1:])) for member in members if member.startswith(_CONFIRMED))


def announced_segments(servers: Servers, names: Names) -> set[WidthAndShard]:
    """All segments of format 2 that may be there."""
    members = (member.lstrip(_CONFIRMED) for member in _members(servers, names))
    return {segment_of(int(member)) for member in members if member.isdigit()}


def counting(servers: Servers, names: Names) -> Command:
    """The command that tells how many members the set has: it only grows, unless its server goes back."""
    return Command(servers.place(names), ("SCARD", names.segments), size=BYTES_PER_STATE)


def confirmed_segments(servers: Servers, names: Names, segments: list[WidthAndShard]) -> list[WidthAndShard] | None:
    """Those of the segments that are confirmed; None if the set is not there."""
    members = [_SET_ITSELF, *map(_confirmed, segments)]
    is_set, *are_in = servers.execute(Command(servers.place(names), ("SMISMEMBER", names.segments, *members)))
    return [segment for segment, is_in in zip(segments, are_in, strict=True) if is_in] if is_set else None


def _members(servers: Servers, names: Names) -> list[bytes]:
    members: list[bytes] = servers.execute(Command(servers.place(names), ("SMEMBERS", names.segments)))
    return members


def _shard(shard: int) -> bytes:
    return _SHARD + b"%d" % shard


def _confirmed(segment: WidthAndShard) -> bytes:
    return _CONFIRMED + b"%d" % segment_number(*segment)


def _add(servers: Servers, names: Names, members: list[bytes], epoch: bytes) -> bool:
    reply = servers.execute(Command.run(servers.place(names), NOTE_SEGMENTS, [names.segments], [epoch, *members]))
    return bool(reply == 1)
