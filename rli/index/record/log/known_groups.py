"""Which pages of a checkpoint name a file group, without keeping the names (P23)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class KnownGroups:
    """For each page the hashes of its file ids (eight bytes each, with a meaning in this process alone), and its partitions.

    Threads may share it: a page never changes, and is added as a whole.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, NDArray[np.int64]] = {}
        self._partition_paths: dict[str, frozenset[str]] = {}

    def __contains__(self, page: str) -> bool:
        return page in self._hashes

    def add(self, page: str, partition_paths: pa.StringArray, file_ids: pa.StringArray) -> None:
        """Remember the file groups of a page, by its name."""
        self._partition_paths[page] = frozenset(partition_paths.unique().to_pylist())
        self._hashes[page] = _hashes_of(file_ids.to_pylist())

    def partition_paths(self, pages: Sequence[str]) -> set[str]:
        """The partitions of the file groups that pages name."""
        return set[str]().union(*(self._partition_paths[page] for page in pages))

    def find(self, file_ids: Collection[str], pages: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
        """The pages that seem to name some of the file ids, and the positions in them; hashes may deceive."""
        wanted = _hashes_of(file_ids)
        for page in pages:
            positions = np.flatnonzero(np.isin(self._hashes[page], wanted))
            if len(positions):
                yield page, positions.tolist()


def _hashes_of(strings: Collection[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, strings), dtype=np.int64, count=len(strings))
