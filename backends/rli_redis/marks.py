"""Marks: up to which commit sequence each family has the entries of all commits.

A server that loses its last changes, because it comes back from an old snapshot or its replica takes over, loses marks
and entries together, and the others keep theirs. So each family has a mark of its own, in its state: it is read with the
family's buckets by whoever looks up, and the least of all says from where a sync has to apply commits again.

A mark is raised by a script on the server that the entries were written to, as long as that is the very process that
has acknowledged them. The control record comes last: it is what look-ups go by, and never greater than a mark that has
not been lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from rli.store.contract import Applied
from rli_redis.families import Family
from rli_redis.family_set import all_confirmed_families, announce, confirm
from rli_redis.names import Names
from rli_redis.reading import Reader
from rli_redis.scripts import MARK_APPLIED
from rli_redis.servers import Command, Servers

WidthAndShard: TypeAlias = tuple[int, int]

_FAMILIES_PER_COMMAND: Final = 1000


class Marks:
    """The marks of one index.

    Every method raises ``IndexNotFoundError`` if the index was dropped, and ``CorruptIndexError`` if a family is gone.
    """

    def __init__(self, servers: Servers, names: Names, reader: Reader) -> None:
        self._servers = servers
        self._names = names
        self._reader = reader

    def read(self, announced: int | None) -> Applied:
        """What the families say, given what the control record says."""
        # Before the marks: what they say then holds for as long as these processes live.
        evidence = self._servers.incarnations()
        marks = [announced or 0]
        for family, state in self._states_of(self._families()):
            if state is None:
                raise self._reader.lost(*family)
            marks.append(Family.from_bytes(state).applied)
        return Applied(None if announced is None else min(marks), max(marks), evidence)

    def raise_to(self, sequence: int, since: Applied, written: Iterable[WidthAndShard]) -> bool:
        """Note in all families that they have the entries of all commits after ``since.least`` up to ``sequence``.

        Args:
            sequence: to note.
            since: what the families said before the entries were written.
            written: families that this process knows to be confirmed.

        Returns:
            False if a server may have lost something since.
        """
        families = self._families()
        # The server that keeps the set may have gone back to before they were confirmed, with or without themselves.
        for (width, shard), state in list(self._states_of(sorted(set(written) - set(families)))):
            if state is not None:
                announce(self._servers, self._names, width, [shard])
                confirm(self._servers, self._names, width, [shard])
                families.append((width, shard))
        parts = list(self._parts(families))
        replies = self._servers.exchange([self._raising(place, some, sequence, since) for place, some in parts])
        is_whole = True
        for (_, some), reply in zip(parts, replies, strict=True):
            if reply is None:
                raise self._reader.lost(*some[0])
            is_whole = is_whole and reply == 1
        return is_whole and self._servers.incarnations() == since.evidence

    def _raising(self, place: int, some: list[WidthAndShard], sequence: int, since: Applied) -> Command:
        incarnation = since.evidence.get(self._servers.node_name(place), "")
        return Command.run(place, MARK_APPLIED, self._states(some), [incarnation, since.least or 0, sequence])

    def _families(self) -> list[WidthAndShard]:
        families = all_confirmed_families(self._servers, self._names)
        if families is None:
            raise self._reader.lost_list()
        return families

    def _states_of(self, families: list[WidthAndShard]) -> Iterator[tuple[WidthAndShard, bytes | None]]:
        """Families, and the state of each as it is stored."""
        parts = list(self._parts(families))
        replies = self._servers.exchange([Command(place, ("MGET", *self._states(some))) for place, some in parts])
        for (_, some), states in zip(parts, replies, strict=True):
            yield from zip(some, states, strict=True)

    def _states(self, families: Iterable[WidthAndShard]) -> list[bytes]:
        return [self._names.family(*family) for family in families]

    def _parts(self, families: Iterable[WidthAndShard]) -> Iterator[tuple[int, list[WidthAndShard]]]:
        """Families of one place, as many as suit a command, and the place."""
        by_place: defaultdict[int, list[WidthAndShard]] = defaultdict(list)
        for width, shard in families:
            by_place[self._servers.place(self._names, shard)].append((width, shard))
        for place, all_there in by_place.items():
            for start in range(0, len(all_there), _FAMILIES_PER_COMMAND):
                yield place, all_there[start : start + _FAMILIES_PER_COMMAND]
