"""How the entries of a build get into its store, shard by shard, or many shards together where the store gains by that.

A batch touches each part of the store where one of its keys belongs: in one that keeps all keys in one order, such as a tree on a disk,
nearly all of it. So the entries of many shards wait in temporary files of this host, and are put in the order of the store, a section
at a time. If the process of a build dies, the next build begins behind the last shard that was noted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import IO, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.codec.fingerprints import fingerprints
from rli.errors import SettingsError
from rli.index.record.entries.builds import BuildNotes
from rli.index.record.entries.stored_entries import Batch, StoredEntries
from rli.view.file_slices import FileSlice

_SECTIONS: Final = 32
"""Runs of neighbouring store shards: the entries of one are in memory while it is put, and those of the next one."""


class ShardPuts:
    """Puts the entries of a build, and notes each shard of the build once the store has all of its entries.

    Use it in a ``with`` statement. ``finish`` puts what is left. One thread calls ``add``.

    Args:
        index: that is filled.
    """

    def __init__(self, index: StoredEntries) -> None:
        self._index = index
        self._notes = BuildNotes(index.store)
        self._waiting = list[tuple[Sequence[FileSlice], int]]()
        self._count = 0
        self._coming: Future[None] | None = None
        self._resources = ExitStack()
        is_ordered = index.store.build_batch > 0
        self._spilled = _SpilledEntries(index.settings.shard_count, self._resources) if is_ordered else None
        self._thread = self._resources.enter_context(ThreadPoolExecutor(1))

    def add(self, shard: Sequence[FileSlice], rows: int, batches: Sequence[Batch]) -> None:
        """Take the entries of a shard; a key that repeats gets its greatest entry.

        Args:
            shard: file slices.
            rows: how many records they have.
            batches: the entries.
        """
        if self._spilled is None:
            self._wait()
            self._coming = self._thread.submit(self._put_shard, shard, rows, batches)
            return
        self._waiting.append((shard, rows))
        for batch in batches:
            self._spilled.add(batch)
            self._count += len(batch[0])
        if self._count >= self._index.store.build_batch:
            self._put_spilled(self._spilled)

    def finish(self) -> None:
        """Put all entries that were added, and note their shards."""
        if self._spilled is not None:
            self._put_spilled(self._spilled)
        self._wait()

    def _put_shard(self, shard: Sequence[FileSlice], rows: int, batches: Sequence[Batch]) -> None:
        self._index.put_all(joined(batches))
        self._notes.finish(shard, rows)

    def _put_spilled(self, spilled: _SpilledEntries) -> None:
        # While a section is put, the next one is read.
        coming = self._thread.submit(spilled.section, 0)
        for number in range(1, _SECTIONS + 1):
            ready = coming.result()
            if number < _SECTIONS:
                coming = self._thread.submit(spilled.section, number)
            if ready:
                self._index.put_all(ready)
        for shard, rows in self._waiting:
            self._notes.finish(shard, rows)
        spilled.clear()
        self._waiting, self._count = [], 0

    def _wait(self) -> None:
        if self._coming is not None:
            self._coming.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()


def joined(batches: Sequence[Batch]) -> list[Batch]:
    """Batches as one of each width, in which each key is once, with its greatest entry."""
    by_width: dict[int, list[Batch]] = {}
    for batch in batches:
        by_width.setdefault(batch[0].width, []).append(batch)
    return [each_once(*_one(some)) for some in by_width.values()]


def _one(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    keys, shards = ([getattr(keys, name) for keys, _ in batches] for name in ("keys", "shards"))
    return EncodedKeys(np.concatenate(keys), np.concatenate(shards)), np.concatenate([one for _, one in batches])


def each_once(keys: EncodedKeys, entries: Entries) -> Batch:
    """Each key once, with its greatest entry: log files may have a record more than once, and partitions records of one key."""
    # Equal keys have equal fingerprints, which are sorted several times as fast.
    prints = np.sort(fingerprints(keys.keys))
    if not (prints[1:] == prints[:-1]).any():
        return keys, entries
    falling = np.argsort(entries, kind="stable")[::-1]
    first = falling[np.unique(keys.keys[falling], return_index=True)[1]]
    return keys.take(first), entries[first]


@dataclass(slots=True)
class _Section:
    """Batches in a temporary file.

    Attributes:
        file: has no name, so it goes with the process.
        sizes: width and number of keys of each batch, in order.
    """

    file: IO[bytes]
    sizes: list[tuple[int, int]] = field(default_factory=list)


class _SpilledEntries:
    """Entries in temporary files, by section.

    Args:
        store_shards: how many shards the key space of the store is cut into.
        resources: closes the files.
    """

    def __init__(self, store_shards: int, resources: ExitStack) -> None:
        self._store_shards = store_shards
        with _telling_folder():
            files = [tempfile.TemporaryFile() for _ in range(_SECTIONS)]  # noqa: SIM115  (``resources`` closes them)
        self._sections = [_Section(resources.enter_context(file)) for file in files]

    def add(self, batch: Batch) -> None:
        """Keep the entries of a batch."""
        keys, entries = batch
        sections = (keys.shards.astype(np.uint32) * _SECTIONS // self._store_shards).astype(np.uint8)
        order = np.argsort(sections, kind="stable")
        borders = np.searchsorted(sections[order], np.arange(_SECTIONS + 1)).tolist()
        for section, (start, end) in zip(self._sections, pairwise(borders), strict=True):
            if start < end:
                chosen = order[start:end]
                section.sizes.append((keys.width, end - start))
                with _telling_folder():
                    for part in (keys.keys[chosen], keys.shards[chosen], entries[chosen]):
                        section.file.write(np.ascontiguousarray(part).tobytes())

    def section(self, number: int) -> list[Batch]:
        """The entries of a section; each key once."""
        section = self._sections[number]
        with _telling_folder():
            # What is left in the buffer is written now.
            section.file.seek(0)
            batches = [self._read(section.file, *size) for size in section.sizes]
        return joined(batches)

    def _read(self, file: IO[bytes], width: int, count: int) -> Batch:
        def read(kind: np.dtype[Any]) -> NDArray[Any]:
            return np.frombuffer(file.read(kind.itemsize * count), kind)

        keys, shards = read(np.dtype(f"V{width}")), read(np.dtype(np.uint16))
        return EncodedKeys(keys, shards), read(np.dtype(np.uint64))

    def clear(self) -> None:
        """Forget all entries."""
        for section in self._sections:
            section.file.seek(0)
            section.file.truncate()
            section.sizes.clear()


@contextmanager
def _telling_folder() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"temporary files of a build cannot be written or read: folder={tempfile.gettempdir()} ({error})",
            remedy="make room there, or name another folder by the environment variable TMPDIR",
        ) from error
