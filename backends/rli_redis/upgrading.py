"""Bringing an index of layout 2, where each family had a mark of its own, to the present one; may be repeated and raced."""

from __future__ import annotations

from collections import defaultdict

from rli_redis.keyspace import Names
from rli_redis.scripts import UPGRADE_SHARD
from rli_redis.segment_set import announced_families, confirm, known_families
from rli_redis.servers import Command, Servers


def upgrade_contents(servers: Servers, names: Names) -> None:
    """Give each shard a mark that says no more than those of its families, and note which shards there are."""
    widths: defaultdict[int, list[int]] = defaultdict(list)
    for width, shard in sorted(announced_families(servers, names)):
        widths[shard].append(width)
    commands = (
        Command.run(
            servers.place(names, shard),
            UPGRADE_SHARD,
            [names.mark(shard), *(names.family(width, shard) for width in own)],
            [],
        )
        for shard, own in widths.items()
    )
    for _ in servers.exchange(commands):
        pass
    confirm(servers, names, known_families(servers, names) or [])
