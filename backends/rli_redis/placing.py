"""Things that are asked of the servers together: as many in a command as one place has, and as suit it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

_KEYS_PER_COMMAND: Final = 1000


def by_place(things: Iterable[T], place_of: Callable[[T], int]) -> Iterator[tuple[int, list[T]]]:
    """Things of one place, as many as suit a command of a key for each, and the place."""
    placed: defaultdict[int, list[T]] = defaultdict(list)
    for thing in things:
        placed[place_of(thing)].append(thing)
    for place, all_there in placed.items():
        for start in range(0, len(all_there), _KEYS_PER_COMMAND):
            yield place, all_there[start : start + _KEYS_PER_COMMAND]
