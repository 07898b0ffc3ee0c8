"""The store in Redis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import ClassVar, Final

import numpy as np

from rli.errors import StoreUnavailableError
from rli.store import (
    ABSENT,
    APPLIED,
    EncodedKeys,
    Entries,
    Finding,
    Store,
    StoreStats,
    Watermarks,
    sequence_in,
    with_option,
)
from rli_redis.cluster import ClusterServers
from rli_redis.contents import stored_bytes
from rli_redis.control import ControlRecords
from rli_redis.entries import StoredEntries
from rli_redis.epochs import Epochs
from rli_redis.finding import Finder
from rli_redis.health import require_safe_servers, servers_health
from rli_redis.independent_servers import IndependentServers
from rli_redis.keyspace import Names
from rli_redis.lifecycle import Presence
from rli_redis.reading import Reader
from rli_redis.scanning import scan
from rli_redis.segment_states import SegmentStates
from rli_redis.segment_table import SegmentTables
from rli_redis.sentinels import SentinelServers
from rli_redis.servers import Servers
from rli_redis.url import Address, Kind, parse_address
from rli_redis.watermarks import ShardWatermarks
from rli_redis.writing import Writer

_PREFIX_WIDTH: Final = 8
"""The keys of indexes of columns begin with a hash of so many bytes, and are found by it."""


class RedisStore(Store):
    """A store in one Redis server, in several independent ones, or in a Redis Cluster.

    Any number of processes and machines read and write at once. What a call has written survives the death of this
    process; what of it survives the death of a server is decided by the server's persistence settings.
    """

    # Enough to spread over a cluster's nodes, and up to this many the names of buckets stay short.
    preferred_shards: ClassVar[int] = 64

    def __init__(self, address: Address, servers: Servers, presence: Presence, names: Names, epoch: bytes) -> None:
        self._address = address
        self._servers: Servers | None = servers
        self._presence = presence
        self._names = names
        self._states = SegmentStates(servers, names, presence)
        tables = SegmentTables(servers, names)
        self._reader = Reader(servers, names, self._states, tables)
        self._epochs = Epochs(servers, names, epoch)
        self._control = ControlRecords(servers, names, presence, self._epochs)
        self._writer = Writer(servers, names, self._reader, tables, self._states, presence, self._control, self._epochs)
        self._watermarks = ShardWatermarks(servers, names, presence, self._control, self._epochs)
        self._finder = Finder(servers, names, presence, self._states, tables, self._control, self._note_floor)
        self._epochs.when_renewed(lambda: self._watermarks.read(self.applied_sequence()).written)
        self._evidence: Mapping[str, str] = {}
        self._seen_floor = 0
        self._noting = Lock()

    @property
    def url(self) -> str:
        return self._address.url

    def url_beside(self, name: str) -> str:
        beside = with_option(self.url, "name", f"{self._address.options.name}.{name}")
        return with_option(beside, "prefix", str(_PREFIX_WIDTH))

    def get(self, keys: EncodedKeys) -> Entries:
        return self.look_up([keys])[0]

    def look_up(self, batches: Sequence[EncodedKeys], applied: int = 0) -> list[Entries]:
        self._opened()
        found = [np.full(len(keys), ABSENT, dtype=np.uint64) for keys in batches]
        for piece in self._reader.pieces(batches, applied):
            if piece.applied < applied:
                # Its server went back to before what is known to be applied.
                raise self._presence.went_back(applied, piece.applied)
            self._note_floor(int(piece.floors.max()))
            keys = batches[piece.batch]
            found[piece.batch][piece.requests] = StoredEntries.of(keys, piece).entries
        return found

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        self.put_all([(keys, entries)])

    def put_all(self, batches: Sequence[tuple[EncodedKeys, Entries]]) -> None:
        self._opened()
        self._writer.put(batches)

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        yield from scan(self._opened(), self._states, shard, batch_size)

    def find(self, prefixes: EncodedKeys, applied: int = 0) -> Iterator[tuple[EncodedKeys, Entries]]:
        self._opened()
        yield from self._finder.find(prefixes, applied)

    def read_control(self, name: str) -> bytes | None:
        self._opened()
        return self._control.read(name)

    def read_controls(self, names: Sequence[str]) -> list[bytes | None]:
        self._opened()
        return self._control.read_all(names)

    def applied_beside(self, names: Sequence[str]) -> tuple[int | None, list[bytes | None]]:
        applied, *values = self.read_controls([APPLIED, *names])
        return sequence_in(applied), values

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        self._opened()
        return self._control.scan(prefix, start)

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        self._opened()
        return self._control.compare_and_set(name, expected, value)

    @property
    def setbacks(self) -> int:
        return self._control.setbacks

    def applied(self) -> Watermarks:
        self._opened()
        while True:
            applied = self._watermarks.read(self.applied_sequence())
            # Before the return: the caller reads the log next, and writes entries by numbers of that log.
            self._epochs.bind(applied.written, self._control.setbacks)
            if applied.evidence == self._evidence:
                return applied
            # Another life of some server: the list of segments may be older than the segments. It is completed before
            # anybody relies on it.
            if self._writer.confirm_again():
                self._evidence = applied.evidence
                return applied

    def mark_applied(self, since: Watermarks, sequence: int) -> bool:
        self._opened()
        # The shards first, the control record last: look-ups go by the record, and it must never be ahead of a shard
        # (P14).
        return self._watermarks.raise_to(sequence, since) and super().mark_applied(since, sequence)

    def life(self) -> str:
        servers = self._opened()
        return servers.incarnation(servers.place(self._names))

    def drop(self) -> None:
        self._opened()
        if not self._presence.drop(self._names):
            self._presence.require(self._names)

    def floor(self) -> int:
        self._opened()
        return max(self._watermarks.floor(), self._seen_floor)

    def seen_floor(self) -> int:
        return self._seen_floor

    def raise_floor(self, sequence: int) -> None:
        self._opened()
        # Watermarks of format 3 have no floor: tombstones stay there.
        if self._names.has_epochs:
            self._watermarks.raise_floor(sequence)
            self._note_floor(sequence)

    def remove_tombstones(self, keys: EncodedKeys) -> int:
        self._opened()
        return self._writer.remove_tombstones(keys)

    def stats(self) -> StoreStats:
        servers = self._opened()
        segments = self._states.all_present()
        tombstones = sum(segment.tombstones for _, _, segment in segments)
        return StoreStats(
            live_entries=sum(segment.entries for _, _, segment in segments) - tombstones,
            tombstones=tombstones,
            stored_bytes=stored_bytes(servers, self._names, segments),
        )

    def health(self) -> list[Finding]:
        return servers_health(self._opened())

    def close(self) -> None:
        servers, self._servers = self._servers, None
        if servers is not None:
            servers.close()

    def _note_floor(self, floor: int) -> None:
        # Threads share the store: a look-up must not miss the floor that it has met because another met a lower one.
        with self._noting:
            self._seen_floor = max(self._seen_floor, floor)

    def _opened(self) -> Servers:
        if self._servers is None:
            raise StoreUnavailableError(f"the store was closed: url={self._address.public_url}", remedy="open it again")
        return self._servers

    def __reduce__(self) -> tuple[object, ...]:
        return _open_copy, (self._address, self._epochs.bound_to)


def open_redis_store(url: str, *, create: bool) -> RedisStore:
    """Open the store that a Redis URL names.

    Raises:
        SettingsError: the URL is not one of a Redis store, the server refuses the log-in, or it may evict the
            index's keys.
        IndexNotFoundError: there is no index of the URL's name and ``create`` is false.
        IndexMismatchError: the index was made with other servers, or with another version of rli.
        CorruptIndexError: a server has lost its part of the index.
        StoreUnavailableError: a server does not answer.
    """
    return _open(parse_address(url), create=create)


def _open(address: Address, *, create: bool, epoch: bytes = b"") -> RedisStore:
    servers = _servers(address)
    try:
        require_safe_servers(
            servers, is_cluster=address.kind is Kind.CLUSTER, allow_eviction=address.options.allow_eviction
        )
        presence = Presence(servers, address.options.name, address.options.prefix)
        return RedisStore(address, servers, presence, presence.open(create=create), epoch)
    except BaseException:
        servers.close()
        raise


def _servers(address: Address) -> Servers:
    if address.kind is Kind.CLUSTER:
        return ClusterServers(address)
    return SentinelServers(address) if address.kind is Kind.SENTINEL else IndependentServers(address)


def _open_copy(address: Address, epoch: bytes) -> RedisStore:
    """Open a pickled store, with the credentials of the process that pickled it, and in its epoch."""
    return _open(address, create=False, epoch=epoch)
