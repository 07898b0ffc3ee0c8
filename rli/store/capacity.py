"""How large an index of so many entries will be in a store; for ``rli capacity``.

A backend package registers ``name = "package.module:function"`` in the entry-point group ``rli.capacity``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final, Protocol

from rli.errors import SettingsError
from rli.store.registry import loaded

ENTRY_POINT_GROUP: Final = "rli.capacity"


@dataclass(frozen=True, slots=True)
class Capacity:
    """The estimated cost of an index in a store.

    Attributes:
        bytes_per_entry: in one copy, everything included; the most that an entry takes in ordinary use.
        kept_in: what the bytes are bytes of: "memory" or "disk".
        servers: how many processes of the store should share it, apart from replicas.
        advice: settings and limits that matter at this size, a sentence each.

    >>> def estimate(entries: int, key_width: int) -> Capacity:
    ...     return Capacity(1.5 * (key_width + 8), "disk", servers=1, advice=())
    >>> estimate(10**6, 16).bytes_per_entry
    36.0
    """

    bytes_per_entry: float
    kept_in: str
    servers: int
    advice: tuple[str, ...]


class CapacityEstimate(Protocol):
    """Estimates what an index costs, from measurements of the backend."""

    def __call__(self, entries: int, key_width: int) -> Capacity:
        """The cost of so many entries, whose encoded keys have ``key_width`` bytes."""
        ...


def estimate_capacity(store: str, entries: int, key_width: int) -> Capacity:
    """What an index would cost the store of this name; raises ``SettingsError`` for a store that is not known."""
    found = entry_points(group=ENTRY_POINT_GROUP, name=store)
    if not found:
        known = ", ".join(sorted(point.name for point in entry_points(group=ENTRY_POINT_GROUP)))
        raise SettingsError(f"the size of this store is unknown: store={store}", remedy=f"known={known}")
    estimate: CapacityEstimate = loaded(next(iter(found)))
    return estimate(entries, key_width)
