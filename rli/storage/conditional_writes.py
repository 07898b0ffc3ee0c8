"""Conditional writes of an object store: put if absent, and put if unchanged.

A client that repeats such a write by itself, because the first answer was lost, is told that it lost against itself.
So the client does not, and what is repeated here is told apart by a token that goes with the object.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from rli.errors import UnsupportedTableError
from rli.storage.contract import Versioned
from rli.storage.object_errors import as_os_errors

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, PutResult, UpdateVersion

    from rli.storage.buckets import ObjectStores
    from rli.storage.probes import Probes

T = TypeVar("T")

_TOKEN: Final = "rlitoken"  # noqa: S105  (the name of an attribute; Azure takes only letters and digits)
_NO_VERSION: Final[UpdateVersion] = {"e_tag": '"0"', "version": "0"}
_DO_NOT_HOLD: Final[tuple[PutMode, ...]] = ("create", _NO_VERSION)
"""Conditions that do not hold where there is an object."""

_TRIED_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 5.0


def until_answered(call: Callable[[], T]) -> T:
    """The result of a call, which is repeated while the store does not answer."""
    attempts = Retrying(
        stop=stop_after_delay(_TRIED_SECONDS),
        wait=wait_random_exponential(multiplier=0.1, max=_LONGEST_WAIT_SECONDS),
        retry=retry_if_exception(_is_no_answer),
        reraise=True,
    )
    return attempts(call)


def _is_no_answer(error: BaseException) -> bool:
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError | PermissionError)


def _version_of(meta: ObjectMeta | PutResult) -> UpdateVersion:
    """The version of an object, for a write in its place."""
    version: UpdateVersion = {}
    if meta["e_tag"] is not None:
        version["e_tag"] = meta["e_tag"]
    if meta["version"] is not None:
        version["version"] = meta["version"]
    return version


class ConditionalWrites:
    """Conditional writes of one bucket.

    Args:
        stores: its clients.
        location: of the table, for errors.
        probes: of the table.
    """

    def __init__(self, stores: ObjectStores, location: str, probes: Probes) -> None:
        self._store = stores.store
        self._once = stores.once
        self._location = location
        self._probes = probes

    def create(self, path: str, content: bytes) -> bool:
        """Write an object unless there is one; returns whether this call has written it.

        Raises:
            UnsupportedTableError: the store does not heed conditions.
        """
        self.require()
        token = uuid4().hex
        return until_answered(lambda: self.create_once(path, content, token))

    def create_once(self, path: str, content: bytes, token: str) -> bool:
        """One attempt to write an object unless there is one, so an ``OSError`` leaves it open.

        Args:
            path: of the object.
            content: of the object.
            token: by which the object is known if an earlier attempt has written it.
        """
        with as_os_errors(path):
            try:
                obstore.put(self._once, path, content, mode="create", attributes={_TOKEN: token})
            except (AlreadyExistsError, PreconditionError):
                return self._is_own(path, token)
            return True

    def replace(self, path: str, content: bytes, version: UpdateVersion) -> bool:
        """Write an object if it is still the one of that version; one attempt, so an ``OSError`` leaves it open."""
        with as_os_errors(path):
            try:
                obstore.put(self._once, path, content, mode=version)
            except (PreconditionError, AlreadyExistsError, FileNotFoundError):
                return False
            return True

    def read(self, path: str) -> Versioned | None:
        """An object with its version; None if there is no object."""
        with as_os_errors(path):
            try:
                found = obstore.get(self._store, path)
                return Versioned(bytes(found.bytes()), _version_of(found.meta))
            except FileNotFoundError:
                return None

    def write(self, path: str, content: bytes, replaced: Versioned | None) -> Versioned | None:
        """Write an object in place of the version that was read; see ``Storage.write_versioned``.

        Raises:
            UnsupportedTableError: the store does not heed conditions.
        """
        self.require()
        condition: Any = "create" if replaced is None else replaced.version
        return until_answered(lambda: self._write_once(path, content, condition))

    def _write_once(self, path: str, content: bytes, condition: PutMode) -> Versioned | None:
        with as_os_errors(path), suppress(PreconditionError, AlreadyExistsError, FileNotFoundError):
            return Versioned(content, _version_of(obstore.put(self._once, path, content, mode=condition)))
        # A write whose answer was lost has lost against itself.
        found = self.read(path)
        return found if found is not None and found.content == content else None

    def _is_own(self, path: str, token: str) -> bool:
        try:
            found = obstore.get(self._store, path, options={"head": True}).attributes.get(_TOKEN)
        except FileNotFoundError as error:
            # S3 also refuses where another write or a deletion of this moment has not ended.
            raise OSError(f"the store was changing the object: path={path}") from error
        return found == token

    def require(self) -> None:
        """Raise ``UnsupportedTableError`` if the store takes a conditional write whose condition does not hold."""
        if not self._are_heeded:
            raise UnsupportedTableError(
                f"rli only reads from this object store: location={self._location}",
                remedy=(
                    "it ignores the conditions of writes (If-None-Match, If-Match), and writers cannot be kept apart "
                    "without them: use a store that honours them (docs/object-stores.md)"
                ),
            )

    @cached_property
    def _are_heeded(self) -> bool:
        with self._probes.written() as path, as_os_errors(path):
            return all(self._refuses(path, mode) for mode in _DO_NOT_HOLD)

    def _refuses(self, path: str, mode: PutMode) -> bool:
        try:
            obstore.put(self._once, path, b"", mode=mode)
        except (AlreadyExistsError, PreconditionError):
            return True
        except NotSupportedError:
            return False
        return False
