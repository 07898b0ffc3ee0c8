"""Errors of obstore as Python's own, which the file systems of pyarrow raise too, and of a process that cannot use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from rli.errors import StoreUnavailableError


class ObjectStoreError(StoreUnavailableError, OSError):
    """The object store does not answer, or refuses; also an ``OSError``, as those of other storages are."""


class ObjectStoreRefusalError(StoreUnavailableError, PermissionError):
    """The object store refuses the credentials, or they lack a right."""


@dataclass(slots=True)
class _Process:
    """Whether this process can send requests: the threads that do so are not there after a fork."""

    has_sent: bool = False
    was_forked: bool = False

    def fork(self) -> None:
        self.was_forked = self.was_forked or self.has_sent


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.fork)


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise ``OSError`` for what obstore raises inside; ``FileNotFoundError`` it raises by itself.

    Raises:
        ObjectStoreRefusalError: the credentials are refused.
        ObjectStoreError: the store does not answer.
        StoreUnavailableError: this process was forked from one that has used an object store; it would wait for ever.
    """
    if _PROCESS.was_forked:
        raise StoreUnavailableError(
            f"this process was forked from one that has used an object store: path={path}",
            remedy="start processes with spawn or forkserver",
        )
    _PROCESS.has_sent = True
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise ObjectStoreRefusalError(
            f"the object store refuses access: path={path} ({_first_line(error)})",
            remedy=(
                "check the credentials: give them as storage_options or as environment variables "
                "(docs/object-stores.md)"
            ),
        ) from error
    except BaseError as error:
        raise ObjectStoreError(
            f"the object store failed: path={path} ({_first_line(error)})",
            remedy=(
                "check the bucket's name, the address of the store, the credentials and the network: give them as "
                "storage_options or as environment variables (docs/object-stores.md)"
            ),
        ) from error


def _first_line(error: BaseError) -> str:
    return str(error).partition("\n")[0]
