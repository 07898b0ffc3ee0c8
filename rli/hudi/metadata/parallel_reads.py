"""Reads of several files of the metadata table: side by side from an object store, which takes tens of milliseconds to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from rli.storage import Storage

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_READERS: Final = 16


def read_each(storage: Storage, read: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterable[_Result]:
    """What a function reads for each item, in their order.

    Args:
        storage: that the function reads from.
        read: may run in several threads at a time.
        items: such as instants or file groups.
    """
    if storage.is_local or len(items) <= 1:
        return map(read, items)
    with ThreadPoolExecutor(_READERS) as threads:
        return list(threads.map(read, items))
