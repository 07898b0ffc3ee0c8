"""How many tasks suit some work. Each task costs a round trip to a Python worker, and few tasks leave executors idle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_BYTES_PER_TASK: Final = 64 * 1024 * 1024

_FILES_PER_CORE: Final = 2
"""Tasks that search files: few, because each one reads the keys of the request; more than one, because files of one size differ
in their work."""

_PIECES_PER_CORE: Final = 4
"""Tasks that read little but their own pieces: more of them even out what pieces differ in."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How many tasks suit some work.

    Attributes:
        cores: asks how many tasks run at a time: a cluster gains executors while a write is at work.
    """

    cores: Callable[[], int]

    def for_bytes(self, size: int) -> int:
        """Tasks for so many bytes of Arrow data.

        A multiple of the cores, so that all cores end at about the same time. Spark's own number of shuffle partitions is not
        asked: it is 200 unless somebody set it, and it is not adapted for frames that are kept.
        """
        cores = self.cores()
        return cores * max(1, -(-size // (_BYTES_PER_TASK * cores)))

    def for_files(self, files: int) -> int:
        """Tasks that share files out and search them for keys."""
        return min(files, self.cores() * _FILES_PER_CORE)

    def for_pieces(self, pieces: int) -> int:
        """Tasks for pieces of work that do not depend on each other."""
        return min(pieces, self.cores() * _PIECES_PER_CORE)
