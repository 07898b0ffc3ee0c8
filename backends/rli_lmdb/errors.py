"""LMDB's errors in rli's words."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from rli.errors import CorruptIndexError, StoreUnavailableError

_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.PageNotFoundError,
    lmdb.IncompatibleError,
)


_ANSWERED = (lmdb.MapFullError, lmdb.MapResizedError, lmdb.ReadersFullError)
"""Errors that the environment answers by itself; they pass unchanged."""


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Raise LMDB's errors about the environment at ``path`` as rli's.

    Raises:
        CorruptIndexError: the file is damaged, or not one of LMDB.
        StoreUnavailableError: no space, no permission, no free reader slot, or any other failure.
    """
    try:
        yield
    except _ANSWERED:
        raise
    except _DAMAGE as error:
        raise CorruptIndexError(
            f"the index file is damaged or not an LMDB file ({error}): path={path}",
            remedy="remove the folder and bootstrap the index from its table",
        ) from error
    except (lmdb.Error, OSError) as error:
        if os.strerror(errno.EAGAIN) in str(error):
            raise StoreUnavailableError(
                f"another container has the index open in a process with the same id: path={path} pid={os.getpid()}",
                remedy=(
                    "LMDB tells processes apart by their ids: let the containers share a process id namespace (docker "
                    "run --pid, shareProcessNamespace), or use a server such as Redis"
                ),
            ) from error
        raise StoreUnavailableError(
            f"the index file cannot be used ({error}): path={path}",
            remedy="check free space and permissions, then try again",
        ) from error
