"""Errors of obstore as Python's own, which the file systems of pyarrow raise too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise ``OSError`` for what obstore raises inside; ``FileNotFoundError`` it raises by itself.

    Raises:
        PermissionError: the credentials are refused.
        OSError: the store does not answer.
    """
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(f"the object store refuses access: path={path} ({_first_line(error)})") from error
    except BaseError as error:
        raise OSError(f"the object store failed: path={path} ({_first_line(error)})") from error


def _first_line(error: BaseError) -> str:
    return str(error).partition("\n")[0]
