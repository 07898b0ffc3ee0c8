"""Which index a process has read, and up to where: what a copy of it in another process must have reached (P20)."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from rli.errors import IndexNotReadyError
from rli.index.record.log.record import record_name
from rli.store.contract import Store
from rli.store.home import SupportsHome
from rli.urls import without_password

_IDENTITY: Final = "identity"
_FIRST_RECORD: Final = record_name(1)


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """An index as one process saw it. Picklable.

    Attributes:
        identity: tells the index from every other one; None for an empty one that was made without an identity.
        home: where its data lie, if they lie on one machine.
        applied: the last commit sequence that was applied; None before a bootstrap.
    """

    identity: str | None
    home: str | None
    applied: int | None

    @classmethod
    def of(cls, store: Store) -> IndexSnapshot:
        """The index in a store as it is now."""
        return cls(_identity_of(store), _home_of(store), store.applied_sequence())

    def require_reached(self, store: Store) -> None:
        """Raise ``IndexNotReadyError`` if the index in a store is another one, or behind this snapshot."""
        if _home_of(store) != self.home or not self._is_of(store):
            raise IndexNotReadyError(
                f"another index than this work's index is at this URL on this host: url={without_password(store.url)} host={platform.node()} "
                f"expected={self.identity}@{self.home} found={_identity_of(store)}@{_home_of(store)}",
                remedy="if several hosts work on the table, use a store that all hosts reach, such as redis or hbase; if the "
                "index was replaced, begin again",
            )
        if self.applied is not None:
            require_applied(store, self.applied)

    def _is_of(self, store: Store) -> bool:
        if self.identity is None or self.identity == _identity_of(store):
            return True
        # The index may have been given an identity since.
        return self.identity == _derived_identity(store)


def require_applied(store: Store, sequence: int) -> int:
    """The last commit sequence that an index has applied; raises ``IndexNotReadyError`` if it is below ``sequence``."""
    applied = store.applied_sequence()
    if applied is None or applied < sequence:
        raise IndexNotReadyError(
            f"the index is behind the snapshot of its look-ups: url={without_password(store.url)} "
            f"host={platform.node()} applied sequence={applied} expected={sequence}",
            remedy="if several hosts work on the table, use a store that all hosts reach; otherwise run: rli index sync TABLE",
        )
    return applied


def identity_of(store: Store) -> str:
    """Tells the index in a store from every other one; from a copy of its folder, too."""
    snapshot = IndexSnapshot.of(store)
    return f"{snapshot.identity}@{snapshot.home}"


def give_identity(store: Store) -> None:
    """Give the index in a store an identity, unless it has one: those of older versions have none."""
    if store.read_control(_IDENTITY) is None:
        store.compare_and_set(_IDENTITY, None, uuid4().hex.encode())


def _identity_of(store: Store) -> str | None:
    given = store.read_control(_IDENTITY)
    return _derived_identity(store) if given is None else given.decode()


def _derived_identity(store: Store) -> str | None:
    """The identity of an index that was not given one: its first commit, which no other index has but a copy."""
    first = store.read_control(_FIRST_RECORD)
    return None if first is None else f"first commit {hashlib.sha256(first).hexdigest()[:32]}"


def _home_of(store: Store) -> str | None:
    return store.home if isinstance(store, SupportsHome) else None
