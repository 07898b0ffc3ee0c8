"""All that an index keeps, begun, measured or removed: the segments and their buckets, and the control records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import numpy as np

from rli_redis.keyspace import CONTROL_COUNTER, Names
from rli_redis.scripts import DROP_SEGMENT
from rli_redis.segment_set import WidthAndShard, begin_segment_set, known_segments
from rli_redis.segments import Segment
from rli_redis.servers import Command, Servers

_KEYS_PER_COMMAND: Final = 1000
_SAMPLE: Final = 128
_STATE_BYTES: Final = 96
# MEMORY USAGE leaves out the table that the server finds keys by: one pointer a key, in a table that is half empty
# on average.
_TABLE_BYTES_PER_KEY: Final = 12


def make_contents(servers: Servers, names: Names) -> None:
    """Make what an empty index has, as far as it is not there."""
    servers.execute(Command(servers.place(names), ("HSETNX", names.control, CONTROL_COUNTER, 0)))
    begin_segment_set(servers, names)


def remove_contents(servers: Servers, names: Names) -> None:
    """Remove the entries and control records; memory is freed by the server in the background.

    All keys of the servers are looked through: which segments there are, a server that went back may not know. The
    index is not to be ready any more: segments that are still made meanwhile are left to those who make them.
    """
    remove_segments(servers, names, known_segments(servers, names) or [])
    _run(servers, _sweep(servers, names))
    remove_control(servers, names)


def remove_control(servers: Servers, names: Names) -> None:
    """Remove the control records, and the set of segments."""
    place = servers.place(names)
    records = Command(place, ("UNLINK", names.control, names.control_names, names.control_tokens))
    # The set of segments goes last: it is what says which segments there are.
    _run(servers, [records, Command(place, ("UNLINK", names.segments))])


def remove_segments(servers: Servers, names: Names, segments: list[WidthAndShard]) -> None:
    """Remove segments as far as they are there."""
    commands = [_taking_out_of_use(servers, names, width, shard) for width, shard in segments]
    counts = list(servers.exchange(commands))
    for (width, shard), count in zip(segments, counts, strict=True):
        _run(servers, _removals(servers, names, (width, shard), count))


def stored_bytes(servers: Servers, names: Names, segments: list[tuple[int, int, Segment]]) -> int:
    """About how much memory the index takes: that of all its control records, and of a sample of its buckets."""
    total = sum(segment.buckets for _, _, segment in segments)
    control = [names.control, names.control_names, names.control_tokens, names.segments]
    commands = [Command(servers.place(names), ("MEMORY", "USAGE", key, "SAMPLES", 0)) for key in control]
    size = sum(_sizes(servers, commands)) + _STATE_BYTES * len(segments)
    if total:
        # Not at equal distances: whether a bucket of a segment has been split of late depends on its number.
        chosen = np.random.default_rng(seed=0).integers(total, size=_SAMPLE).tolist()
        sampled = _sizes(servers, [_measure(servers, names, segments, bucket) for bucket in chosen])
        size += total * (sum(sampled) // len(sampled) + _TABLE_BYTES_PER_KEY)
    return size


def _measure(servers: Servers, names: Names, segments: list[tuple[int, int, Segment]], bucket: int) -> Command:
    """Measures one of all buckets, counted through the segments."""
    for width, shard, segment in segments:
        if bucket < segment.buckets:
            key = names.buckets(width, shard, np.array([bucket]))[0]
            return Command(servers.place(names, shard), ("MEMORY", "USAGE", key))
        bucket -= segment.buckets
    raise IndexError(bucket)


def _sizes(servers: Servers, commands: list[Command]) -> list[int]:
    return [size or 0 for size in servers.exchange(commands)]


def _taking_out_of_use(servers: Servers, names: Names, width: int, shard: int) -> Command:
    keys = [names.segment(width, shard), names.dropped_segment(width, shard)]
    return Command.run(servers.place(names, shard), DROP_SEGMENT, keys, [])


def _removals(servers: Servers, names: Names, segment: tuple[int, int], count: int) -> Iterator[Command]:
    width, shard = segment
    place = servers.place(names, shard)
    # What says how many buckets there are goes last.
    buckets = names.buckets(width, shard, np.arange(count))
    for keys in _chunks([*buckets, names.watermark(shard), names.dropped_segment(width, shard)]):
        yield Command(place, ("UNLINK", *keys))


def _sweep(servers: Servers, names: Names) -> Iterator[Command]:
    """Removes every key of the index's shards, found by looking through all keys of the servers, some at a time."""
    for node in servers.places_of_nodes():
        cursor = b"0"
        while True:
            scanning = Command(node, ("SCAN", cursor, "MATCH", names.pattern, "COUNT", _KEYS_PER_COMMAND))
            cursor, keys = servers.execute(scanning)
            for key in keys:
                if (shard := names.shard_of(key)) is not None:
                    yield Command(servers.place(names, shard), ("UNLINK", key))
            if cursor == b"0":
                break


def _run(servers: Servers, commands: Iterable[Command]) -> None:
    for _ in servers.exchange(commands):
        pass


def _chunks(keys: Iterable[bytes]) -> Iterator[list[bytes]]:
    iterator = iter(keys)
    while chunk := list(islice(iterator, _KEYS_PER_COMMAND)):
        yield chunk
