"""The lock of Hudi's writers, as the properties of a table name it (``hoodie.write.lock.*``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from rli.errors import SettingsError, UnsupportedTableError

PROVIDER: Final = "hoodie.write.lock.provider"
FILE_FOLDER: Final = "hoodie.write.lock.filesystem.path"
FILE_EXPIRY: Final = "hoodie.write.lock.filesystem.expire"

NO_LOCK: Final = "lease"
"""The choice of a table whose writers share no lock with writers of Hudi."""

_CONCURRENCY: Final = "hoodie.write.concurrency.mode"
_FAILED_WRITES: Final = "hoodie.clean.failed.writes.policy"
_SINGLE_WRITER: Final = "SINGLE_WRITER"
_EAGER: Final = "EAGER"

_PACKAGE: Final = "org.apache.hudi.client.transaction.lock"
_MINUTE: Final = 60


class LockProvider(StrEnum):
    """The lock providers of Hudi that rli honours, by the names of their classes."""

    FILE_SYSTEM = "FileSystemBasedLockProvider"


_NOT_TAKEN_YET: Final = (
    "StorageBasedLockProvider",
    "ZookeeperBasedLockProvider",
    "ZookeeperBasedImplicitBasePathLockProvider",
)
"""Providers whose locks rli ignores: writers of rli and of Hudi have to take turns."""

_CHOICES: Final = {"filesystem": LockProvider.FILE_SYSTEM}


@dataclass(frozen=True, slots=True)
class LockSettings:
    """The lock that a table's properties name.

    Attributes:
        provider: of Hudi.
        file_folder: folder of the lock file; None for ``.hoodie`` of the table.
        file_expiry: seconds after which a lock file counts as left behind; 0 for never.
    """

    provider: LockProvider
    file_folder: str | None
    file_expiry: int

    @classmethod
    def of(cls, raw: Mapping[str, str], location: str) -> Self | None:
        """The lock that properties name; None if they name none, or a provider whose locks rli ignores.

        Args:
            raw: the properties of a table.
            location: of the table, for errors.

        Raises:
            UnsupportedTableError: rli refuses the provider, or the properties let Hudi roll back the writes of others.
        """
        if not is_lock_named(raw):
            return None
        named = raw[PROVIDER].strip()
        _require_shared(raw, location)
        name = named.rpartition(".")[2]
        if name not in set(LockProvider):
            raise UnsupportedTableError(
                f"rli does not honour this lock provider: table={location} {PROVIDER}={named}",
                remedy=f"let all writers use one of {', '.join(LockProvider)}, and set {PROVIDER} to it",
            )
        expiry = raw.get(FILE_EXPIRY, "0").strip()
        if not expiry.isdecimal():
            raise UnsupportedTableError(
                f"not a number of minutes: table={location} {FILE_EXPIRY}={expiry!r}",
                remedy="set it to 0 or more minutes",
            )
        return cls(LockProvider(name), raw.get(FILE_FOLDER) or None, int(expiry) * _MINUTE)


def is_lock_named(raw: Mapping[str, str]) -> bool:
    """Whether properties name a lock provider, other than those that rli ignores."""
    return raw.get(PROVIDER, "").strip().rpartition(".")[2] not in {"", *_NOT_TAKEN_YET}


def lock_properties(lock: str) -> dict[str, str]:
    """The properties of a table for a choice of its lock.

    A lock alone is not enough: the properties also let Hudi's writers check for conflicts, and leave pending writes of others alone.

    Args:
        lock: "lease" for no lock of Hudi, or "filesystem".

    Raises:
        SettingsError: there is no such choice.
    """
    if lock == NO_LOCK:
        return {}
    if lock not in _CHOICES:
        raise SettingsError(f"no such choice: lock={lock!r}", remedy=f"choose one of {[NO_LOCK, *_CHOICES]}")
    return {
        PROVIDER: f"{_PACKAGE}.{_CHOICES[lock]}",
        _CONCURRENCY: "OPTIMISTIC_CONCURRENCY_CONTROL",
        _FAILED_WRITES: "LAZY",
    }


def _require_shared(raw: Mapping[str, str], location: str) -> None:
    """Refuse properties by which a single writer of Hudi rolls back the pending writes of all others."""
    for key, unsafe in ((_CONCURRENCY, _SINGLE_WRITER), (_FAILED_WRITES, _EAGER)):
        if raw.get(key, "").strip().upper() == unsafe:
            raise UnsupportedTableError(
                f"Hudi's writers of this table roll back the pending writes of others: table={location} {key}={raw[key]}",
                remedy=f"set {_CONCURRENCY}=OPTIMISTIC_CONCURRENCY_CONTROL and {_FAILED_WRITES}=LAZY",
            )


def chosen_lock(raw: Mapping[str, str]) -> str:
    """The choice whose properties these are (see ``lock_properties``); the class of the provider if there is no such choice."""
    if not is_lock_named(raw):
        return NO_LOCK
    name = raw[PROVIDER].strip().rpartition(".")[2]
    return next((choice for choice, provider in _CHOICES.items() if provider == name), name)
