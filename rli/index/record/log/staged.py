"""What a transaction on the index alone has staged in the store, as records of the log name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_MOST_NUMBERED: Final = 1_000_000
"""Their names have six digits."""


def numbered(count: int, first: int = 0) -> tuple[str, ...]:
    """The names of some chunks of one process."""
    return tuple(f"{number:06d}" for number in range(first, first + count))


@dataclass(frozen=True, slots=True)
class Staged:
    """What a transaction on the index alone has staged in the store.

    Attributes:
        chunks: the names of its chunks, in the order in which they were staged.
        keeps_chunks: whether the chunks stay for a while after they were applied.
        placed: record keys that get a location; None in records of older versions.
        deleted: record keys that are removed; None in records of older versions.
    """

    chunks: tuple[str, ...] = ()
    keeps_chunks: bool = False
    placed: int | None = None
    deleted: int | None = None

    @property
    def is_numbered(self) -> bool:
        """Whether the chunks have the names of ``numbered``: then records say only how many they are."""
        return self.chunks == numbered(len(self.chunks))

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Staged:
        """What a record of the log tells of it; raises ``ValueError``, ``KeyError`` or ``TypeError`` if that is damaged."""
        count = stored["stagedChunks"]
        if count > _MOST_NUMBERED:
            raise ValueError("no transaction stages so many chunks")
        return cls(
            chunks=tuple(stored.get("chunks", ())) or numbered(count),
            keeps_chunks=stored.get("keepsChunks") is True,
            placed=stored.get("placed"),
            deleted=stored.get("deleted"),
        )
