"""Watermarks: up to which commit sequence each shard has the entries of all commits.

A server that loses its last changes, because it comes back from an old snapshot or its replica takes over, loses watermarks
and entries together, and the others keep theirs. So each shard has a watermark of its own, beside its segments: it is read
with their buckets by each look-up, and the least of all says from where a sync has to apply commits again.

A watermark is raised by a script on the server that the entries were written to, as long as that is the very process that
has acknowledged them. The control record comes last: it is what look-ups go by, and never greater than a watermark that has
not been lost.

A watermark has the shard's *floor*, too: writers leave entries up to it alone, so tombstones up to it may be removed (P30). It
is read with the buckets, and raised before the first tombstone goes. So who finds a tombstone missing finds the floor.

A watermark also keeps the greatest sequence that was ever written to the shard. Where that is greater than the last one of
the commit log, the server of the log went back, and would give out sequences a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.errors import CorruptIndexError, SettingsError
from rli.store import SETTINGS, IndexSettings, Watermarks
from rli_redis.control import ControlRecords
from rli_redis.epochs import Epochs
from rli_redis.keyspace import Names
from rli_redis.lifecycle import Presence
from rli_redis.placing import by_place
from rli_redis.scripts import BEGIN_EPOCH, MARK_APPLIED, RAISE_FLOOR
from rli_redis.segment_set import confirmed_shards, known_segments
from rli_redis.segments import BYTES_PER_STATE
from rli_redis.servers import Argument, Command, Servers

_WATERMARK: Final = np.dtype([("applied", ">u4"), ("greatest", ">u4")])
_EPOCH_WIDTH: Final = 8
_FLOOR_WIDTH: Final = 4
_WIDTHS: Final = (
    _WATERMARK.itemsize,
    _WATERMARK.itemsize + _EPOCH_WIDTH,
    _WATERMARK.itemsize + _EPOCH_WIDTH + _FLOOR_WIDTH,
)
"""Of formats 2 and 3; of format 4 before and after the first purge."""
_FOUND: Final = np.dtype([("applied", np.uint32), ("floor", np.uint32), ("is_there", np.bool_)])
_WHOLE: Final = np.dtype([*_WATERMARK.descr, ("epoch", f"V{_EPOCH_WIDTH}"), ("floor", ">u4")])


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark of one shard.

    Attributes:
        applied: the last commit sequence up to which the shard has the entries of all commits.
        greatest: the greatest sequence that was ever written to the shard; 0 where none was noted.
        epoch: which life of the server with the commit log it was last written in; empty in format 3.
        floor: entries up to this sequence are written no more, and their tombstones may be gone.
    """

    applied: int
    greatest: int
    epoch: bytes = b""
    floor: int = 0

    @classmethod
    def from_bytes(cls, stored: bytes) -> Watermark:
        """Read what the scripts wrote."""
        _require_widths([len(stored)])
        applied, greatest = np.frombuffer(stored, dtype=_WATERMARK, count=1)[0].tolist()
        epoch, floor = stored[_WATERMARK.itemsize : _WIDTHS[1]], stored[_WIDTHS[1] :]
        return cls(applied, greatest, epoch, int.from_bytes(floor, "big"))


def watermarks_in(stored: Sequence[bytes | None]) -> NDArray[np.void]:
    """The watermarks of shards: shape (n,), fields ``applied`` and ``floor``, and ``is_there``, false for None.

    Raises:
        CorruptIndexError: the scripts have not written these bytes.
    """
    _require_widths({len(watermark) for watermark in stored if watermark is not None})
    whole = b"".join([(watermark or b"").ljust(_WIDTHS[-1], b"\0") for watermark in stored])
    found = np.empty(len(stored), dtype=_FOUND)
    read = np.frombuffer(whole, dtype=_WHOLE)
    found["applied"], found["floor"] = read["applied"], read["floor"]
    found["is_there"] = [watermark is not None for watermark in stored]
    return found


def _require_widths(widths: Iterable[int]) -> None:
    for width in widths:
        if width not in _WIDTHS:
            raise CorruptIndexError(
                f"the watermark of a shard of the index has a wrong length: bytes={width}",
                remedy="bootstrap the index again",
            )


class ShardWatermarks:
    """The watermarks of one index.

    Every method raises ``IndexNotFoundError`` if the index was dropped, and ``CorruptIndexError`` if a watermark is gone.
    """

    def __init__(
        self, servers: Servers, names: Names, presence: Presence, control: ControlRecords, epochs: Epochs
    ) -> None:
        self._servers = servers
        self._names = names
        self._presence = presence
        self._control = control
        self._epochs = epochs
        self._shard_count = 0

    def read(self, announced: int | None) -> Watermarks:
        """What the shards say, given what the control record says."""
        # Before the watermarks: what they say then holds for as long as these processes live.
        evidence = self._servers.incarnations()
        watermarks = self._watermarks_in(self._epochs.present(evidence), announced or 0).values()
        applied = [announced or 0, *(watermark.applied for watermark in watermarks)]
        return Watermarks(
            least=None if announced is None else min(applied),
            greatest=max(applied),
            written=max((watermark.greatest for watermark in watermarks), default=0),
            evidence=evidence,
        )

    def _watermarks_in(self, epoch: bytes, applied: int) -> Mapping[int, Watermark]:
        """All watermarks, read after they were brought to an epoch."""
        watermarks = self._watermarks()
        if epoch and (
            late := [shard for shard in range(self._shards()) if shard not in watermarks]
            + [shard for shard, watermark in watermarks.items() if watermark.epoch != epoch]
        ):
            commands = [
                Command.run(place, BEGIN_EPOCH, self._keys(some), [epoch, applied], size=_size_of(some))
                for place, some in self._parts(late)
            ]
            for _ in self._servers.exchange(commands):
                pass
            # Read again, behind the new epoch: entries that came before are counted in here, and later ones of another
            # epoch are refused.
            watermarks = self._watermarks()
        # Only now: a control record is changed in this epoch only after all watermarks have it (P32).
        self._epochs.known = epoch
        return watermarks

    def raise_to(self, sequence: int, since: Watermarks) -> bool:
        """Note in all shards that they have the entries of all commits after ``since.least`` up to ``sequence``.

        Args:
            sequence: to note.
            since: what the shards said before the entries were written.

        Returns:
            False if a server may have lost something since.
        """
        parts = list(self._parts(self._watermarks()))
        replies = self._servers.exchange([self._raising(place, some, sequence, since) for place, some in parts])
        is_whole = True
        for (_, some), reply in zip(parts, replies, strict=True):
            if reply is None:
                raise self._lost(some)
            is_whole = is_whole and reply == 1
        # Asked at the end once more. A server without shards in these parts may have been replaced meanwhile, the log's
        # among them.
        return is_whole and self._servers.incarnations() == since.evidence

    def floor(self) -> int:
        """The greatest floor of all shards."""
        return max((watermark.floor for watermark in self._watermarks().values()), default=0)

    def raise_floor(self, sequence: int) -> None:
        """Raise the floors of all shards to a sequence whose commits they all have.

        Raises:
            IndexNotReadyError: a shard went back to before that.
        """
        parts = list(self._parts(self._watermarks()))
        commands = [
            Command.run(place, RAISE_FLOOR, self._keys(some), [sequence], size=_size_of(some)) for place, some in parts
        ]
        for (_, some), reply in zip(parts, self._servers.exchange(commands), strict=True):
            if reply is None:
                raise self._lost(some)
            if not isinstance(reply, int) or reply < sequence:
                raise self._presence.went_back(sequence, int(reply))

    def _raising(self, place: int, shards: list[int], sequence: int, since: Watermarks) -> Command:
        incarnation = since.evidence.get(self._servers.node_name(place), "")
        arguments: list[Argument] = [incarnation, since.least or 0, sequence]
        return Command.run(place, MARK_APPLIED, self._keys(shards), arguments, size=_size_of(shards))

    def _watermarks(self) -> Mapping[int, Watermark]:
        """The watermarks of all shards that have segments."""
        expected = self._confirmed_shards()
        if expected is None:
            raise self._presence.lost(self._names, "the list of its parts")
        # The server that keeps the set may have gone back to before they were confirmed.
        parts = list(self._parts(sorted(expected.union(range(self._shards())))))
        replies = self._servers.exchange(
            [Command(place, ("MGET", *self._keys(shards)), size=_size_of(shards)) for place, shards in parts]
        )
        stored = {
            shard: watermark
            for (_, shards), reply in zip(parts, replies, strict=True)
            for shard, watermark in zip(shards, reply, strict=True)
            if watermark is not None
        }
        if missing := sorted(expected.difference(stored)):
            raise self._lost(missing)
        return {shard: Watermark.from_bytes(watermark) for shard, watermark in stored.items()}

    def _confirmed_shards(self) -> set[int] | None:
        if count := self._shards():
            shards = confirmed_shards(self._servers, self._names, count)
            return None if shards is None else set(shards)
        segments = known_segments(self._servers, self._names)
        return None if segments is None else {shard for _, shard in segments}

    def _shards(self) -> int:
        """How many shards the index has by its settings; 0 while it has none that can be read."""
        if not self._shard_count and (settings := self._control.read(SETTINGS)) is not None:
            with suppress(SettingsError):
                self._shard_count = IndexSettings.from_json(settings).shard_count
        return self._shard_count

    def _lost(self, shards: list[int]) -> CorruptIndexError:
        return self._presence.lost(self._names, f"the watermark of shard {shards[0]}")

    def _keys(self, shards: Iterable[int]) -> list[bytes]:
        return [self._names.watermark(shard) for shard in shards]

    def _parts(self, shards: Iterable[int]) -> Iterator[tuple[int, list[int]]]:
        return by_place(shards, lambda shard: self._servers.place(self._names, shard))


def _size_of(shards: Sequence[int]) -> int:
    """About how many bytes a command has that reads or changes the watermarks of some shards."""
    return BYTES_PER_STATE * len(shards)
