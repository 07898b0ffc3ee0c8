"""Deleting objects that may be missing. Some stores ignore a missing object, others fail."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import obstore

from rli.storage.object_errors import as_os_errors

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_DELETED_AT_ONCE: Final = 16


def delete_objects(store: ObjectStore, keys: Sequence[str]) -> None:
    """Delete objects in as few requests as the store allows, in any order; those that are gone already are passed over."""
    if not keys:
        return
    with as_os_errors(keys[0]):
        try:
            obstore.delete(store, keys)
        except FileNotFoundError:
            # The call stopped at a missing object, and may have left others.
            with ThreadPoolExecutor(_DELETED_AT_ONCE) as threads:
                for _ in threads.map(lambda key: _delete(store, key), keys):
                    pass


def _delete(store: ObjectStore, key: str) -> None:
    with suppress(FileNotFoundError):
        obstore.delete(store, key)
