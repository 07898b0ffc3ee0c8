"""An object store as a file system of pyarrow's, for its Parquet readers and writers; nothing is cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import obstore
import pyarrow as pa
from pyarrow import fs

from rli.storage.buckets import key_of
from rli.storage.contract import FileVersion
from rli.storage.object_errors import as_os_errors
from rli.storage.object_streams import ObjectReader, ObjectWriter

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import AzureStore, GCSStore, S3Store


class ObjectFileSystem(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow is not typed
    """Reads and writes the objects of one bucket; paths begin with the bucket's name.

    It changes no names: that is for ``rli.storage.object_changes``.
    """

    def __init__(self, store: S3Store | GCSStore | AzureStore, bucket: str) -> None:
        self._store = store
        self._bucket = bucket

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFileSystem) and self._store == other._store

    def __hash__(self) -> int:
        return hash(self._bucket)

    def get_type_name(self) -> str:
        return "object store"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        folder = selector.base_dir.rstrip("/")
        key = key_of(folder)
        with as_os_errors(folder):
            if selector.recursive:
                return self._files(key, obstore.list(self._store, key or None).collect())
            found = obstore.list_with_delimiter(self._store, key or None)
        folders = [fs.FileInfo(self._path(prefix), fs.FileType.Directory) for prefix in found["common_prefixes"]]
        return [*folders, *self._files(key, found["objects"])]

    def open_input_stream(self, path: str) -> pa.NativeFile:
        with as_os_errors(path):
            return pa.BufferReader(pa.py_buffer(obstore.get(self._store, key_of(path)).bytes()))

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self.open_versioned(path)[0]

    def open_versioned(self, path: str) -> tuple[pa.NativeFile, FileVersion | None]:
        """An object to read, and its version; None if the store gives it no ETag."""
        reader = ObjectReader(self._store, key_of(path))
        return pa.PythonFile(reader, mode="r"), reader.version

    def read_ranges(self, path: str, ranges: Sequence[range]) -> list[pa.Buffer]:
        """Ranges of bytes of an object, by one request each; by one for all that lie close together."""
        starts, stops = ([*bounds] for bounds in zip(*((found.start, found.stop) for found in ranges), strict=True))
        with as_os_errors(path):
            return [*map(pa.py_buffer, obstore.get_ranges(self._store, key_of(path), starts=starts, ends=stops))]

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:  # noqa: ARG002  (given by pyarrow)
        return pa.PythonFile(ObjectWriter(self._store, key_of(path)), mode="w")

    def _info(self, path: str) -> fs.FileInfo:
        key = key_of(path)
        with as_os_errors(path):
            try:
                return fs.FileInfo(path, fs.FileType.File, size=obstore.head(self._store, key)["size"])
            except FileNotFoundError:
                is_folder = any(obstore.list(self._store, key, chunk_size=1))
        return fs.FileInfo(path, fs.FileType.Directory if is_folder else fs.FileType.NotFound)

    def _files(self, folder: str, objects: Any) -> list[fs.FileInfo]:
        # Hadoop marks folders by empty objects, which obstore lists under the name of the folder.
        return [self._file(found) for found in objects if found["path"] != folder]

    def _file(self, found: ObjectMeta) -> fs.FileInfo:
        return fs.FileInfo(
            self._path(found["path"]), fs.FileType.File, size=found["size"], mtime=found["last_modified"]
        )

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}"

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001  (pyarrow's)
        """Folders are a part of objects' names."""

    def delete_dir(self, path: str) -> NoReturn:
        self._refuse(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> NoReturn:  # noqa: ARG002, FBT001, FBT002
        self._refuse(path)

    def delete_root_dir_contents(self) -> NoReturn:
        self._refuse("")

    def delete_file(self, path: str) -> NoReturn:
        self._refuse(path)

    def move(self, src: str, dest: str) -> NoReturn:  # noqa: ARG002
        self._refuse(src)

    def copy_file(self, src: str, dest: str) -> NoReturn:  # noqa: ARG002
        self._refuse(src)

    def open_append_stream(self, path: str, metadata: Any) -> NoReturn:  # noqa: ARG002
        self._refuse(path)

    def _refuse(self, path: str) -> NoReturn:
        raise NotImplementedError(f"this file system does not change names: path={path}")
