"""Bringing an index of format 2, where each segment had a watermark of its own, to the present one; may be repeated and raced."""

from __future__ import annotations

from collections import defaultdict

from rli_redis.keyspace import Names
from rli_redis.scripts import UPGRADE_SHARD
from rli_redis.segment_set import announced_segments, confirm, known_segments
from rli_redis.servers import Command, Servers


def upgrade_contents(servers: Servers, names: Names) -> None:
    """Give each shard a watermark that says no more than those of its segments, and note which shards there are."""
    widths: defaultdict[int, list[int]] = defaultdict(list)
    for width, shard in sorted(announced_segments(servers, names)):
        widths[shard].append(width)
    commands = (
        Command.run(
            servers.place(names, shard),
            UPGRADE_SHARD,
            [names.watermark(shard), *(names.segment(width, shard) for width in own)],
            [],
        )
        for shard, own in widths.items()
    )
    for _ in servers.exchange(commands):
        pass
    confirm(servers, names, known_segments(servers, names) or [])
