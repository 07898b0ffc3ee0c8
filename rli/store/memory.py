"""The memory store: dicts of this process, for tests and notebooks.

``memory:name`` names a store; ``memory:`` is the one without a name. Opening the same URL again in the same
process gives the same content. Everything is lost when the process ends, and no other process sees it.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from threading import Lock
from typing import Final
from urllib.parse import unquote, urlsplit

import numpy as np

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import ABSENT, Entries, is_live, is_old_tombstone, sequences, supersedes
from rli.errors import IndexNotFoundError, SettingsError, StoreUnavailableError
from rli.findings import Finding, Verdict
from rli.store.contract import Store, StoreStats
from rli.store.home import machine
from rli.urls import without_password

_LOG = logging.getLogger(__name__)


class _Content:
    """What one memory store holds; shared by all stores that were opened with its name."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.shards: defaultdict[int, dict[bytes, int]] = defaultdict(dict)
        self.control: dict[str, bytes] = {}
        self.floor = 0
        self.dropped = False


_CONTENTS: Final[dict[str, _Content]] = {}
_CONTENTS_LOCK: Final = Lock()


class MemoryStore(Store):
    """A store in dicts of this process.

    Unpickling it in another process raises ``SettingsError``, as nothing of it is there.
    """

    def __init__(self, url: str, name: str, content: _Content) -> None:
        self._url = url
        self._name = name
        self._content: _Content | None = content

    @property
    def url(self) -> str:
        return self._url

    @property
    def home(self) -> str:
        return f"{machine()}/{os.getpid()}"

    def url_beside(self, name: str) -> str:
        return f"{self._url}.{name}"

    def get(self, keys: EncodedKeys) -> Entries:
        content = self._living()
        with content.lock:
            return _stored(content, keys)

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        content = self._living()
        with content.lock:
            winning = supersedes(entries, _stored(content, keys)) & (sequences(entries) > content.floor)
            newer = keys.take(winning)
            for shard, key, entry in zip(
                newer.shards.tolist(), newer.to_bytes(), entries[winning].tolist(), strict=True
            ):
                content.shards[shard][key] = entry

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        content = self._living()
        with content.lock:
            stored = dict(content.shards.get(shard, {}))
        by_width: defaultdict[int, list[bytes]] = defaultdict(list)
        for key in stored:
            by_width[len(key)].append(key)
        for width, keys in by_width.items():
            for start in range(0, len(keys), batch_size):
                batch = keys[start : start + batch_size]
                yield (
                    EncodedKeys(
                        np.frombuffer(b"".join(batch), dtype=f"V{width}"),
                        np.full(len(batch), shard, dtype=np.uint16),
                    ),
                    np.array([stored[key] for key in batch], dtype=np.uint64),
                )

    def floor(self) -> int:
        return self._living().floor

    def seen_floor(self) -> int:
        return self.floor()

    def raise_floor(self, sequence: int) -> None:
        content = self._living()
        with content.lock:
            content.floor = max(content.floor, sequence)

    def remove_tombstones(self, keys: EncodedKeys) -> int:
        content = self._living()
        with content.lock:
            old = keys.take(is_old_tombstone(_stored(content, keys), content.floor))
            for shard, key in zip(old.shards.tolist(), old.to_bytes(), strict=True):
                del content.shards[shard][key]
        return len(old)

    def read_control(self, name: str) -> bytes | None:
        content = self._living()
        with content.lock:
            return content.control.get(name)

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        content = self._living()
        with content.lock:
            return sorted(
                (name, value) for name, value in content.control.items() if name.startswith(prefix) and name >= start
            )

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        content = self._living()
        with content.lock:
            if content.control.get(name) != expected:
                return False
            if value is None:
                content.control.pop(name, None)
            else:
                content.control[name] = bytes(value)
            return True

    def drop(self) -> None:
        content = self._living()
        with _CONTENTS_LOCK, content.lock:
            content.dropped = True
            content.shards.clear()
            content.control.clear()
            del _CONTENTS[self._name]

    def stats(self) -> StoreStats:
        content = self._living()
        with content.lock:
            entries = np.array(
                [entry for shard in content.shards.values() for entry in shard.values()], dtype=np.uint64
            )
        live = int(np.count_nonzero(is_live(entries)))
        return StoreStats(live_entries=live, tombstones=len(entries) - live, stored_bytes=None)

    def health(self) -> list[Finding]:
        return [
            Finding(
                "durability",
                Verdict.WARNING,
                f"a memory store loses everything when its process ends: url={self._url}",
                "use lmdb:///path for a persistent index",
            )
        ]

    def close(self) -> None:
        self._content = None

    def _living(self) -> _Content:
        if self._content is None:
            raise StoreUnavailableError(f"the store was closed: url={self._url}", remedy="open it again")
        if self._content.dropped:
            raise IndexNotFoundError(
                f"the index was dropped: url={self._url}", remedy="open it again, or create it if there is none"
            )
        return self._content

    def __reduce__(self) -> tuple[object, ...]:
        return _attach, (self._url, os.getpid())


def open_memory_store(url: str, *, create: bool) -> MemoryStore:
    """Open the memory store that ``memory:name`` names in this process.

    Raises:
        SettingsError: the URL has more than a name.
        IndexNotFoundError: this process has no such store and ``create`` is false.
    """
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment:
        raise SettingsError(f"not a URL of a memory store: url={without_password(url)}", remedy="use memory:name")
    name = unquote(parts.path)
    with _CONTENTS_LOCK:
        content = _CONTENTS.get(name)
        if content is None:
            if not create:
                raise IndexNotFoundError(f"no index in the memory of this process: url={url}", remedy="create it first")
            content = _CONTENTS[name] = _Content()
            _LOG.info("index is kept in memory and lost when this process ends: url=%s", url)
    return MemoryStore(url, name, content)


def _stored(content: _Content, keys: EncodedKeys) -> Entries:
    absent = int(ABSENT)
    nothing: dict[bytes, int] = {}
    shards = content.shards
    return np.fromiter(
        (
            shards.get(shard, nothing).get(key, absent)
            for shard, key in zip(keys.shards.tolist(), keys.to_bytes(), strict=True)
        ),
        dtype=np.uint64,
        count=len(keys),
    )


def _attach(url: str, process: int) -> MemoryStore:
    if process != os.getpid():
        raise SettingsError(
            f"a memory store lives in a single process: url={url} process={process}",
            remedy="use lmdb:///path to share an index",
        )
    return open_memory_store(url, create=False)
