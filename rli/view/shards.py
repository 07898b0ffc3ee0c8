"""Shards of a build: file slices that are read together, and noted once that is done.

A build that died goes on with the shards that are not noted. Two processes that build the same index share them: a shard has
one name, whoever reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from rli.tasks import lots_of
from rli.view.file_slices import FileSlice

_SHARD_BYTES: Final = 64 << 20
"""Of files: some million entries at most are in memory."""


def size_of_slice(file_slice: FileSlice) -> int:
    """Bytes of the files of a slice, as which a shard counts it."""
    return file_slice.size


def shards(
    slices: Iterable[FileSlice], size_of: Callable[[FileSlice], int] = size_of_slice
) -> Iterator[list[FileSlice]]:
    """The slices in order, together up to 64 MiB.

    Args:
        slices: to share out.
        size_of: as how many bytes a slice counts.
    """
    return lots_of(slices, size_of, _SHARD_BYTES)


def name_of_shard(shard: Sequence[FileSlice]) -> str:
    """A name that no shard with other records has."""
    return _digest(map(name_of_slice, shard))


def name_of_slice(file_slice: FileSlice) -> str:
    """A name that no slice with other records has.

    Where a log file has blocks of several commits, the commits that count are a part of it.
    """
    files = (f"{file.path} {file.size}" for file in file_slice.files)
    seen = file_slice.seen
    if seen is None:
        return _digest(files)
    completed = sorted(time for time in seen.completed if time >= file_slice.instant)
    return _digest([*files, str(seen.first), str(seen.as_of), *completed, "undone", *sorted(seen.undone)])


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
