"""Redis' errors: which may go away by themselves, and what they are in rli's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from redis import exceptions

from rli.errors import SettingsError, StoreUnavailableError

_REFUSALS: Final = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.NoPermissionError)
_TRANSIENT: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.MasterDownError,
    OSError,
)
# A server is busy with a script; it was master, and follows another one by now; its replicas are away for a moment.
_TRANSIENT_CODES: Final = ("BUSY", "READONLY", "NOREPLICAS")
_TRANSIENT_IN_CLUSTER: Final = (
    *_TRANSIENT,
    # MovedError is one of these.
    exceptions.AskError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    exceptions.RedisClusterException,
)
_CLASSES: Final = {
    "NOPERM": exceptions.NoPermissionError,
    "OOM": exceptions.OutOfMemoryError,
    "READONLY": exceptions.ReadOnlyError,
}
_NO_RIGHT_IN_SCRIPT: Final = "user executing the script can't"
_NO_CLUSTER: Final = "Cluster mode is not enabled"
_NO_DATABASE: Final = "DB index is out of range"
_KEYS: Final = "~{rli<name>/* and ~{rli}index:<name>"


def is_transient(error: BaseException) -> bool:
    """Whether the same command may succeed later on the same server."""
    if isinstance(error, _REFUSALS):
        return False
    return isinstance(error, _TRANSIENT) or any(_says(error, code) for code in _TRANSIENT_CODES)


def is_demoted(error: BaseException) -> bool:
    """Whether a server has answered that it follows another one, so that its connections lead nowhere any more."""
    return _says(error, "READONLY")


def is_transient_in_cluster(error: BaseException) -> bool:
    """Whether the same command may succeed later, on whichever node is then the one to ask."""
    causes = _with_causes(error)
    if any(isinstance(cause, _REFUSALS) or _NO_CLUSTER in str(cause) for cause in causes):
        return False
    return isinstance(error, _TRANSIENT_IN_CLUSTER) or is_transient(error)


@contextmanager
def translated_errors(store: str) -> Iterator[None]:
    """Turn the client library's errors into rli's; ``store`` is the URL without secrets."""
    try:
        yield
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise _translated(store, error) from error


def _translated(store: str, error: Exception) -> SettingsError | StoreUnavailableError:
    # The first cause tells most: that a right is missing makes a server look as if it were no node of a cluster.
    for cause in reversed(_with_causes(error)):
        if refusal := _refusal(store, cause):
            return refusal
    if isinstance(error, exceptions.MovedError):
        return SettingsError(
            f"the Redis server is a node of a Redis Cluster: store={store}",
            remedy="use a URL that begins with redis+cluster://",
        )
    if _says(error, "OOM"):
        return StoreUnavailableError(
            f"the Redis server is full and refuses to write: store={store}",
            remedy="raise its maxmemory or free memory, then write again: no commit of a table is lost",
        )
    return StoreUnavailableError(
        f"the Redis server reports an error ({type(error).__name__}: {error}): store={store}",
        remedy="see its log, then try again",
    )


def explained(store: str, cause: BaseException) -> StoreUnavailableError | None:
    """The error for a cause that waiting did not mend, where more is to be said than that nobody answered."""
    if _says(cause, "READONLY"):
        return StoreUnavailableError(
            f"the Redis server is a read-only replica: store={store}",
            remedy="name its master in the URL, or its sentinels",
        )
    if _says(cause, "NOREPLICAS"):
        return StoreUnavailableError(
            f"the Redis server has too few replicas to write ({cause}): store={store}",
            remedy="start them, or lower min-replicas-to-write, then write again: no commit of a table is lost",
        )
    return None


def _refusal(store: str, cause: BaseException) -> SettingsError | None:
    """The error for what waiting does not mend."""
    if _says(cause, "NOPERM") or _NO_RIGHT_IN_SCRIPT in str(cause):
        return SettingsError(
            f"the Redis user lacks a right ({cause}): store={store}",
            remedy=f"give it the keys {_KEYS} of the index's name, and the commands that docs/stores/redis.md lists",
        )
    if isinstance(cause, _REFUSALS):
        return SettingsError(
            f"the Redis server refuses the log-in ({cause}): store={store}",
            remedy=(
                "give user and password in the credentials file (docs/security.md), or the password in the environment "
                "variable RLI_REDIS_PASSWORD: it is sent only to servers in --index, index= or RLI_REDIS_HOSTS"
            ),
        )
    if _NO_DATABASE in str(cause):
        return SettingsError(
            f"the Redis server has no database of this number: store={store}",
            remedy="it has 16 unless its setting databases says otherwise, so use redis://host:port/0",
        )
    if _NO_CLUSTER in str(cause):
        return SettingsError(
            f"the Redis server is not a node of a Redis Cluster: store={store}",
            remedy="use a URL that begins with redis://",
        )
    return None


def _says(error: BaseException, code: str) -> bool:
    """Whether a server has answered with this code; Redis 6.2 puts it into the text of a script's error."""
    if not isinstance(error, exceptions.ResponseError):
        return False
    if isinstance(error, _CLASSES.get(code, ())):
        return True
    return str(error).startswith(f"{code} ") or f"-{code} " in str(error)


def _with_causes(error: BaseException) -> list[BaseException]:
    """An error and those that led to it; the client library packs the errors of nodes into one of the cluster."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes
