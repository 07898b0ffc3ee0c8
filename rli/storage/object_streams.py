"""Objects as Python's files, of which pyarrow makes its own."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError

from rli.storage.contract import FileVersion
from rli.storage.object_errors import as_os_errors

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import AzureStore, GCSStore, S3Store

_PART_BYTES: Final = 8 * 1024 * 1024
"""Objects from this size on are uploaded in parts; they appear when all parts are there."""


_TAIL_BYTES: Final = 64 * 1024
"""Fetched first: a Parquet file is read from its end, and a small one is whole in it."""


class ObjectReader:
    """Reads ranges of an object: one request each. The first request also brings the end of the object, which needs no other one.

    Raises:
        FileNotFoundError: there is no such object.
    """

    closed: Final = False

    def __init__(self, store: S3Store | GCSStore | AzureStore, key: str) -> None:
        self._store = store
        self._key = key
        self._position = 0
        with as_os_errors(key):
            found, self._tail = _meta_and_tail(store, key)
        self._size = found["size"]
        self._etag = found["e_tag"]

    @property
    def version(self) -> FileVersion | None:
        """Of the object that was opened; None if the store gives none."""
        return (self._etag, self._size) if self._etag else None

    def read(self, count: int = -1) -> bytes:
        """At most ``count`` bytes, all that are left if it is negative."""
        left = max(self._size - self._position, 0)
        length = left if count < 0 else min(count, left)
        if not length:
            return b""
        content = self._content(self._position, length)
        self._position += len(content)
        return content

    def _content(self, start: int, length: int) -> bytes:
        tail_start = self._size - len(self._tail)
        if start >= tail_start:
            return self._tail[start - tail_start : start - tail_start + length]
        with as_os_errors(self._key):
            return bytes(obstore.get_range(self._store, self._key, start=start, length=length))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open between two requests."""


def _meta_and_tail(store: S3Store | GCSStore | AzureStore, key: str) -> tuple[ObjectMeta, bytes]:
    """The size and the ETag of an object, and its last bytes where one request brings all."""
    try:
        found = obstore.get(store, key, options={"range": {"suffix": _TAIL_BYTES}})
        return found.meta, bytes(found.bytes())
    except FileNotFoundError:
        raise
    except BaseError:
        # Azure knows no ranges from the end, and no store one of an empty object.
        return obstore.head(store, key), b""


class ObjectWriter:
    """Writes an object, which appears when the writer is closed."""

    def __init__(self, store: S3Store | GCSStore | AzureStore, key: str) -> None:
        self._key = key
        with as_os_errors(key):
            self._writer = obstore.open_writer(store, key, buffer_size=_PART_BYTES)

    @property
    def closed(self) -> bool:
        return self._writer.closed()

    def write(self, content: bytes) -> int:
        """Take some content; the number of its bytes."""
        with as_os_errors(self._key):
            # Arrow hands on buffers of signed bytes, which the client refuses.
            return self._writer.write(memoryview(content).cast("B"))

    def flush(self) -> None:
        """Nothing: an object appears whole."""

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Let the object appear."""
        with as_os_errors(self._key):
            self._writer.close()
