"""Whole operations of others between any two requests of a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from threading import RLock
from typing import Any

import pyarrow as pa
from pyarrow import fs

from rli import Table, open_table
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.index.record.table.index import RecordTableIndex
from rli.storage import Storage
from rli.storage.contract import OpenedStorage
from rli.store.contract import Watermarks
from rli.table.table import opened_table
from tests.support.faults import PointedStore


class Intruder:
    """Counts requests, and does something once before the n-th of them, counted from 0.

    Args:
        before: the number of the request; None to count alone.
        action: what is done, from beginning to end.
    """

    def __init__(self, before: int | None = None, action: Callable[[], object] = lambda: None) -> None:
        self.requests = 0
        self._before = before
        self._action = action
        # Arrow reads some files in threads of its own.
        self._lock = RLock()
        self._is_busy = False

    def __call__(self, _request: str = "") -> None:
        with self._lock:
            if self._is_busy:
                return
            number, self.requests = self.requests, self.requests + 1
            if number == self._before:
                self._is_busy = True
                try:
                    self._action()
                finally:
                    self._is_busy = False


class _WatchedFileSystem(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow is not typed
    """Reports each request, and hands it on."""

    def __init__(self, inner: fs.FileSystem, at_request: Callable[[], None]) -> None:
        self._inner = inner
        self._at_request = at_request

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _WatchedFileSystem) and self._inner == other._inner

    def __hash__(self) -> int:
        return id(self._inner)

    def get_type_name(self) -> str:
        return str(self._inner.type_name)

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        self._at_request()
        return self._inner.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        self._at_request()
        return self._inner.get_file_info(selector)

    def open_input_file(self, path: str) -> pa.NativeFile:
        self._at_request()
        return self._inner.open_input_file(path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        self._at_request()
        return self._inner.open_input_stream(path)

    def open_output_stream(self, path: str, metadata: Mapping[str, str]) -> pa.NativeFile:
        return self._inner.open_output_stream(path, metadata=metadata)

    def _refuse(self, *_: object, **__: object) -> Any:
        raise NotImplementedError("tables are changed in no other way")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_append_stream = _refuse


class _WatchedStore(PointedStore):
    """Reports requests that read, too."""

    def get(self, keys: EncodedKeys) -> Entries:
        self._at_point("get")
        return super().get(keys)

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        self._at_point("scan")
        return super().scan(shard, batch_size)

    def read_control(self, name: str) -> bytes | None:
        self._at_point("read_control")
        return super().read_control(name)

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        self._at_point("scan_control")
        return super().scan_control(prefix, start)

    def applied_sequence(self) -> int | None:
        self._at_point("applied_sequence")
        return super().applied_sequence()

    def applied(self) -> Watermarks:
        self._at_point("applied")
        return super().applied()


def watched_storage(storage: Storage, intruder: Intruder) -> Storage:
    """The storage, each request of which that reads is reported."""
    opened = storage._resolved  # noqa: SLF001  (below everything that reads)
    handler = _WatchedFileSystem(opened.filesystem, intruder)
    return replace(storage, _opened=OpenedStorage(fs.PyFileSystem(handler), opened.root, opened.changes))


def watched_table(location: str, intruder: Intruder, options: dict[str, str] | None = None) -> Table:
    """The open table, whose requests to files and to the index's store are reported."""
    table = open_table(location, storage_options=options)
    opened = opened_table(table)
    index = opened.index
    opened.definition = replace(opened.definition, storage=watched_storage(opened.definition.storage, intruder))
    if isinstance(index, RecordTableIndex):
        opened._index = RecordTableIndex(_WatchedStore(index.store, intruder), index.settings)  # noqa: SLF001
    return table
