"""The lock of Hudi's writers, as the properties of a table name it (``hoodie.write.lock.*``), and their heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self
from urllib.parse import parse_qs, quote, urlsplit

from rli.errors import SettingsError, UnsupportedTableError

_PREFIX: Final = "hoodie.write.lock."
PROVIDER: Final = "hoodie.write.lock.provider"
FILE_FOLDER: Final = "hoodie.write.lock.filesystem.path"
NO_LOCK: Final = "lease"
"""The choice of a table whose writers share no lock with writers of Hudi."""

FILE_EXPIRY: Final = "hoodie.write.lock.filesystem.expire"
_VALIDITY: Final = "hoodie.write.lock.storage.validity.timeout.secs"
_RENEWAL: Final = "hoodie.write.lock.storage.renew.interval.secs"
_FORMER_RENEWAL: Final = "hoodie.write.lock.storage.heartbeat.poll.secs"
_SERVERS: Final = "hoodie.write.lock.zookeeper.url"
_BASE_PATH: Final = "hoodie.write.lock.zookeeper.base_path"
_LOCK_KEY: Final = "hoodie.write.lock.zookeeper.lock_key"
_SESSION: Final = "hoodie.write.lock.zookeeper.session_timeout_ms"
_CONNECTION: Final = "hoodie.write.lock.zookeeper.connection_timeout_ms"
_HEARTBEATS: Final = "hoodie.client.heartbeat."
_BEAT: Final = "hoodie.client.heartbeat.interval_in_ms"
_MISSES: Final = "hoodie.client.heartbeat.tolerable.misses"
_CONCURRENCY: Final = "hoodie.write.concurrency.mode"
_FAILED_WRITES: Final = "hoodie.clean.failed.writes.policy"
_SHARING: Final = (_CONCURRENCY, _FAILED_WRITES)
_SINGLE_WRITER: Final = "SINGLE_WRITER"
_EAGER: Final = "EAGER"

_PACKAGE: Final = "org.apache.hudi.client.transaction.lock"
_MINUTE: Final = 60
_MILLISECONDS: Final = 1000
_RENEWALS_PER_VALIDITY: Final = 10
"""At least so many renewals of the lock in a storage fit into its validity: Hudi refuses fewer."""

_ZOOKEEPER: Final = "zookeeper"
_FORM: Final = "zookeeper://host:port,host:port/base/path?key=NAME"
_BY_NAME: Final = {"filesystem": "FileSystemBasedLockProvider", "storage": "StorageBasedLockProvider"}


class LockProvider(StrEnum):
    """The lock providers of Hudi that rli honours, by the names of their classes."""

    FILE_SYSTEM = _BY_NAME["filesystem"]
    STORAGE = _BY_NAME["storage"]
    ZOOKEEPER = "ZookeeperBasedLockProvider"


_NO_DYNAMODB: Final = (
    "tables in S3 need no DynamoDB: use StorageBasedLockProvider (Hudi 1.1 or later), or ZookeeperBasedLockProvider"
)
_ADVICE: Final = {
    "ZookeeperBasedImplicitBasePathLockProvider": (
        "its lock depends on how each writer spells the table's location: use ZookeeperBasedLockProvider, and set "
        f"{_BASE_PATH} and {_LOCK_KEY}"
    ),
    "DynamoDBBasedLockProvider": _NO_DYNAMODB,
    "DynamoDBBasedImplicitPartitionKeyLockProvider": _NO_DYNAMODB,
    "HiveMetastoreBasedLockProvider": (
        "rli does not speak to a Hive metastore: use ZookeeperBasedLockProvider, FileSystemBasedLockProvider, or, in an "
        "object store, StorageBasedLockProvider"
    ),
    "InProcessLockProvider": "its lock protects from threads of one JVM alone: use FileSystemBasedLockProvider",
}
"""For refused providers: why, and what to use."""


@dataclass(frozen=True, slots=True)
class FileLockSettings:
    """The lock of ``FileSystemBasedLockProvider``.

    Attributes:
        folder: of the lock file; None for ``.hoodie`` of the table.
        expiry: seconds after which a lock file counts as left behind; 0 for never.
    """

    folder: str | None
    expiry: int
    provider: LockProvider = LockProvider.FILE_SYSTEM


@dataclass(frozen=True, slots=True)
class StorageLockSettings:
    """The lock of ``StorageBasedLockProvider``.

    Attributes:
        validity: seconds for which a lock file is valid without a renewal.
        renewal: seconds between two renewals.
    """

    validity: int
    renewal: int
    provider: LockProvider = LockProvider.STORAGE


@dataclass(frozen=True, slots=True)
class ZookeeperLockSettings:
    """The lock of ``ZookeeperBasedLockProvider``.

    Attributes:
        servers: host:port, several of them separated by commas; a path behind them is the root of all paths.
        base_path: of the lock's node.
        key: name of the lock's node below it.
        session: seconds after which the servers end the session of a silent holder.
        connection: seconds; for how long to wait for a connection.
    """

    servers: str
    base_path: str
    key: str
    session: float
    connection: float
    provider: LockProvider = LockProvider.ZOOKEEPER

    @property
    def path(self) -> str:
        """The node of the lock. Its children are the holder and those that wait."""
        # Hudi and Curator join them so; ZooKeeper refuses a path with an empty part.
        return f"{self.base_path}/{self.key}"


LockSettings = FileLockSettings | StorageLockSettings | ZookeeperLockSettings


def lock_settings(raw: Mapping[str, str], location: str) -> LockSettings | None:
    """The lock that properties name; None if they name none.

    Args:
        raw: the properties of a table.
        location: of the table, for errors.

    Raises:
        UnsupportedTableError: rli refuses the provider, a value is wrong, or the properties let Hudi roll back the writes of
            others.
    """
    if not is_lock_named(raw):
        return None
    named, read = raw[PROVIDER].strip(), _Values(raw, location)
    read.require_shared()
    name = named.rpartition(".")[2]
    if name == LockProvider.FILE_SYSTEM:
        return FileLockSettings(raw.get(FILE_FOLDER) or None, read.number(FILE_EXPIRY, 0, unit="minutes") * _MINUTE)
    if name == LockProvider.STORAGE:
        return read.storage_lock()
    if name == LockProvider.ZOOKEEPER:
        return ZookeeperLockSettings(
            read.required(_SERVERS),
            read.required(_BASE_PATH),
            read.required(_LOCK_KEY),
            read.number(_SESSION, 60_000) / _MILLISECONDS,
            read.number(_CONNECTION, 15_000) / _MILLISECONDS,
        )
    raise UnsupportedTableError(
        f"rli does not honour this lock provider: table={location} {PROVIDER}={named}",
        remedy=_ADVICE.get(name, f"let all writers use one of {', '.join(LockProvider)}")
        + f"; give all writers the same, and set {PROVIDER} to it",
    )


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How often the writers of a table give heartbeats.

    Attributes:
        interval: seconds between two heartbeats.
        tolerated: seconds without a heartbeat after which a writer counts as dead.
    """

    interval: float
    tolerated: float

    @classmethod
    def of(cls, raw: Mapping[str, str], location: str) -> Self:
        """As the properties of a table say, or by Hudi's defaults; raises ``UnsupportedTableError`` for a wrong value."""
        read = _Values(raw, location)
        interval = read.number(_BEAT, 60_000, least=1) / _MILLISECONDS
        return cls(interval, interval * read.number(_MISSES, 2, least=1, unit="heartbeats"))


def is_lock_named(raw: Mapping[str, str]) -> bool:
    """Whether properties name a lock provider."""
    return bool(raw.get(PROVIDER, "").strip())


def lock_properties(lock: str) -> dict[str, str]:
    """The properties of a table for a choice of its lock.

    A lock alone is not enough: the properties also let Hudi's writers check for conflicts, and leave pending writes of others alone.

    Args:
        lock: "lease" for no lock of Hudi, "filesystem", "storage", or "zookeeper://host:port/base/path?key=NAME".

    Raises:
        SettingsError: there is no such choice.
    """
    if lock == NO_LOCK:
        return {}
    if lock.startswith(f"{_ZOOKEEPER}:"):
        chosen = _zookeeper_properties(lock)
    elif lock in _BY_NAME:
        chosen = {PROVIDER: f"{_PACKAGE}.{_BY_NAME[lock]}"}
    else:
        raise SettingsError(
            f"no such choice: lock={lock!r}", remedy=f"choose one of {', '.join([NO_LOCK, *_BY_NAME, _FORM])}"
        )
    return {**chosen, _CONCURRENCY: "OPTIMISTIC_CONCURRENCY_CONTROL", _FAILED_WRITES: "LAZY"}


def lock_changes(raw: Mapping[str, str], lock: str) -> dict[str, str | None]:
    """What becomes of a table's properties if it is given another lock; None where a property goes.

    Args:
        raw: the properties now. Those of the same provider stay, such as its expiry.
        lock: as for ``lock_properties``, which raises the same.
    """
    wanted = lock_properties(lock)
    if wanted.get(PROVIDER) == raw.get(PROVIDER, "").strip():
        return {**wanted}
    return {**dict.fromkeys(key for key in raw if key.startswith(_PREFIX) or key in _SHARING), **wanted}


def shared_properties(raw: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table's lock, which all writers of Hudi need as options."""
    return {key: value for key, value in sorted(raw.items()) if _is_of_lock(key)}


def _is_of_lock(key: str) -> bool:
    return key.startswith((_PREFIX, _HEARTBEATS)) or key in _SHARING


def chosen_lock(raw: Mapping[str, str]) -> str:
    """The choice whose properties these are (see ``lock_properties``); the class of the provider if there is no such choice."""
    if not is_lock_named(raw):
        return NO_LOCK
    name = raw[PROVIDER].strip().rpartition(".")[2]
    if name == LockProvider.ZOOKEEPER:
        return f"{_ZOOKEEPER}://{raw.get(_SERVERS)}{raw.get(_BASE_PATH)}?key={quote(raw.get(_LOCK_KEY, ''), safe='')}"
    return next((choice for choice, provider in _BY_NAME.items() if provider == name), name)


def _zookeeper_properties(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    options = parse_qs(parts.query, keep_blank_values=True)
    keys, path = options.pop("key", []), parts.path.rstrip("/")
    key = keys[0] if len(keys) == 1 else ""
    is_path = path and key and "/" not in key and "//" not in path
    if not (parts.netloc and is_path) or "@" in url or options or parts.fragment:
        raise SettingsError(f"not the URL of a lock in ZooKeeper: lock={url!r}", remedy=f"write it as {_FORM}")
    return {
        PROVIDER: f"{_PACKAGE}.{LockProvider.ZOOKEEPER}",
        _SERVERS: parts.netloc,
        _BASE_PATH: path,
        _LOCK_KEY: key,
    }


@dataclass(frozen=True, slots=True)
class _Values:
    """The properties of a table, to be checked."""

    raw: Mapping[str, str]
    location: str

    def number(self, key: str, default: int, *, least: int = 0, unit: str = "milliseconds") -> int:
        value = self.raw.get(key, "").strip() or str(default)
        if not value.isdecimal() or int(value) < least:
            raise UnsupportedTableError(
                f"not a number of {unit}: table={self.location} {key}={value!r}",
                remedy=f"set it to {least} or more {unit}",
            )
        return int(value)

    def required(self, key: str) -> str:
        value = self.raw.get(key, "").strip()
        if not value:
            raise UnsupportedTableError(
                f"a property of the table's lock is missing: table={self.location} {key}=",
                remedy="set it to the value that Hudi's writers have",
            )
        return value

    def storage_lock(self) -> StorageLockSettings:
        validity = self.number(_VALIDITY, 300, least=_RENEWALS_PER_VALIDITY, unit="seconds")
        key = _RENEWAL if self.raw.get(_RENEWAL) else _FORMER_RENEWAL
        renewal = self.number(key, 30, least=1, unit="seconds")
        if validity < renewal * _RENEWALS_PER_VALIDITY:
            raise UnsupportedTableError(
                f"Hudi refuses a lock with fewer than {_RENEWALS_PER_VALIDITY} renewals in its validity: "
                f"table={self.location} {_VALIDITY}={validity} {key}={renewal}",
                remedy=f"set {_VALIDITY} to {renewal * _RENEWALS_PER_VALIDITY} or more",
            )
        return StorageLockSettings(validity, renewal)

    def require_shared(self) -> None:
        """Refuse properties by which a single writer of Hudi rolls back the pending writes of all others."""
        for key, unsafe in ((_CONCURRENCY, _SINGLE_WRITER), (_FAILED_WRITES, _EAGER)):
            if self.raw.get(key, "").strip().upper() == unsafe:
                raise UnsupportedTableError(
                    f"Hudi's writers of this table roll back the pending writes of others: table={self.location} "
                    f"{key}={self.raw[key]}",
                    remedy=f"set {_CONCURRENCY}=OPTIMISTIC_CONCURRENCY_CONTROL and {_FAILED_WRITES}=LAZY",
                )
