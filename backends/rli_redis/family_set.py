"""Which families there are: a set of their numbers.

A family is announced before it is made and confirmed before its first entry is written. So all that an index keeps
can be found through the set, and a family that is confirmed but not there was lost by its server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rli_redis.names import Names, family_number, family_of
from rli_redis.servers import Command, Servers

_SET_ITSELF: Final = b"families"
_CONFIRMED: Final = b"+"


def begin_family_set(servers: Servers, names: Names) -> None:
    """Make the set, unless it is there."""
    _add(servers, names, [_SET_ITSELF])


def announce(servers: Servers, names: Names, width: int, shards: Iterable[int]) -> None:
    """Note families that are about to be made."""
    _add(servers, names, [b"%d" % family_number(width, shard) for shard in shards])


def confirm(servers: Servers, names: Names, width: int, shards: Iterable[int]) -> None:
    """Note families that were made."""
    _add(servers, names, [_confirmed(width, shard) for shard in shards])


def announced_families(servers: Servers, names: Names) -> list[tuple[int, int]] | None:
    """Width and shard of each family that was ever announced, in order; None if the set is not there."""
    members = _members(servers, names)
    if members is None:
        return None
    return sorted(family_of(int(member)) for member in members if member.isdigit())


def all_confirmed_families(servers: Servers, names: Names) -> list[tuple[int, int]] | None:
    """Width and shard of each family that may have entries, in order; None if the set is not there."""
    members = _members(servers, names)
    if members is None:
        return None
    return sorted(family_of(int(member[1:])) for member in members if member.startswith(_CONFIRMED))


def confirmed_families(servers: Servers, names: Names, width: int, shards: list[int]) -> list[int] | None:
    """Those of the shards that have a confirmed family of this width; None if the set is not there."""
    members = [_SET_ITSELF, *(_confirmed(width, shard) for shard in shards)]
    is_set, *are_in = servers.execute(Command(servers.place(names), ("SMISMEMBER", names.families, *members)))
    return [shard for shard, is_in in zip(shards, are_in, strict=True) if is_in] if is_set else None


def _members(servers: Servers, names: Names) -> list[bytes] | None:
    members: list[bytes] = servers.execute(Command(servers.place(names), ("SMEMBERS", names.families)))
    return members if _SET_ITSELF in members else None


def _confirmed(width: int, shard: int) -> bytes:
    return _CONFIRMED + b"%d" % family_number(width, shard)


def _add(servers: Servers, names: Names, members: list[bytes]) -> None:
    servers.execute(Command(servers.place(names), ("SADD", names.families, *members)))
