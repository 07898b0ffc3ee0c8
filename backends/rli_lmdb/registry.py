"""The environments that this process has open: one for each data file, shared and counted."""

from __future__ import annotations

import os
from collections import deque
from threading import Lock
from typing import Final, TypeAlias

from rli.errors import StoreUnavailableError
from rli_lmdb.access import LOCK_FILE, identity_of, may_write
from rli_lmdb.environment import Environment
from rli_lmdb.unlisted_environment import UnlistedEnvironment

AnyEnvironment: TypeAlias = Environment | UnlistedEnvironment


class _Registry:
    def __init__(self) -> None:
        self._lock = Lock()
        self._current: dict[str, AnyEnvironment] = {}
        self._users: dict[AnyEnvironment, int] = {}
        self._inherited: list[AnyEnvironment] = []
        self._abandoned: deque[AnyEnvironment] = deque()

    def acquire(self, path: str) -> AnyEnvironment:
        path = os.path.realpath(path)
        with self._lock:
            environment = self._current.get(path)
            # By device and inode, not by path: files that were removed and made again are another environment, and the
            # old one is still in the hands of its users.
            identity = identity_of(path)
            if any(identity == inherited.identity for inherited in self._inherited):
                raise StoreUnavailableError(
                    f"this process was forked from one that has the index open: path={path}",
                    remedy="close it before the fork, or start processes with spawn",
                )
            if environment is None or environment.identity != identity:
                environment = self._current[path] = _environment(path)
            self._users[environment] = self._users.get(environment, 0) + 1
            self._release_abandoned()
            return environment

    def release(self, environment: AnyEnvironment) -> None:
        with self._lock:
            self._release(environment)
            self._release_abandoned()

    def abandon(self, environment: AnyEnvironment) -> None:
        # The garbage collector may call this in a thread that holds the lock.
        self._abandoned.append(environment)

    def _release_abandoned(self) -> None:
        while self._abandoned:
            self._release(self._abandoned.popleft())

    def _release(self, environment: AnyEnvironment) -> None:
        # Nothing is known of an environment that was opened before a fork: it belongs to the parent.
        if environment not in self._users:
            return
        self._users[environment] -= 1
        if self._users[environment]:
            return
        del self._users[environment]
        if self._current.get(environment.path) is environment:
            del self._current[environment.path]
        environment.close()

    def forget_after_fork(self) -> None:
        # LMDB cannot open them again beside the inherited ones, nor close those without harm: that would free the
        # parent's places in the table of readers.
        self._inherited.extend(self._users)
        self._lock = Lock()
        self._current = {}
        self._users = {}
        self._abandoned = deque()


def _environment(path: str) -> AnyEnvironment:
    return Environment(path) if may_write(path, LOCK_FILE) else UnlistedEnvironment(path)


_REGISTRY: Final = _Registry()
os.register_at_fork(after_in_child=_REGISTRY.forget_after_fork)


def acquire(path: str) -> AnyEnvironment:
    """The environment in the folder ``path``, opened or shared; to be given back with ``release``.

    Raises:
        StoreUnavailableError: it was open in the process that this one was forked from.
    """
    return _REGISTRY.acquire(path)


def release(environment: AnyEnvironment) -> None:
    """Give an environment back; the last one to do so closes it."""
    _REGISTRY.release(environment)


def abandon(environment: AnyEnvironment) -> None:
    """Give an environment back when the process next opens or closes one; never blocks."""
    _REGISTRY.abandon(environment)
