"""The archive of a timeline in layout 2: Parquet files of instants (``HoodieLSMTimelineInstant``) that a manifest lists.

The folder holds ``<first time>_<last time>_<level>.parquet``, ``manifest_<n>``, which lists the files of version n of
the archive, and ``_version_``, which says which version counts. A file exists for readers once a manifest lists it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from rli.errors import CorruptTableError
from rli.json_text import parse_json
from rli.storage import Storage

_VERSION_FILE: Final = "_version_"
_MANIFEST: Final = "manifest_"
_ROW_VERSION: Final = 1
_FILE_NAME: Final = re.compile(r"\d+_(?P<last>\d+)_\d+\.parquet", re.ASCII)

_SCHEMA: Final = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """One completed instant.

    Attributes:
        time: when it was requested.
        completion_time: when it completed.
        action: of the completed instant.
        metadata: content of its completed file.
        plan: content of its requested file; None for actions that keep none.
    """

    time: str
    completion_time: str
    action: str
    metadata: bytes
    plan: bytes | None


def file_name(instants: Sequence[ArchivedInstant]) -> str:
    """Name of the file that holds these instants, in the order of their times and at least one."""
    return f"{instants[0].time}_{instants[-1].time}_0.parquet"


def last_archived(names: Iterable[str]) -> str | None:
    """The last instant of an archive by the names of its files; "" if it is empty, None if a name does not tell."""
    of_instants = [name for name in names if name != _VERSION_FILE and not name.startswith(_MANIFEST)]
    found = [_FILE_NAME.fullmatch(name) for name in of_instants]
    lasts = [match["last"] for match in found if match]
    return max(lasts, default="") if len(lasts) == len(found) else None


def to_parquet(instants: Sequence[ArchivedInstant]) -> bytes:
    """Content of a file that holds these instants."""
    rows = [(i.time, i.completion_time, i.action, i.metadata, i.plan, _ROW_VERSION) for i in instants]
    columns = [pa.array(values, kind.type) for values, kind in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), sink, compression="gzip", store_schema=False)
    content: bytes = sink.getvalue().to_pybytes()
    return content


@dataclass(frozen=True, slots=True)
class History:
    """The archive of one table.

    Attributes:
        storage: the table.
        folder: of the archive.
    """

    storage: Storage
    folder: str

    def is_empty(self) -> bool:
        """Whether nothing was ever archived."""
        return self._latest_version() == 0

    def since(self, time: str) -> set[tuple[str, str]]:
        """Times and actions of the instants in the files that go up to a time or beyond it.

        Raises:
            CorruptTableError: the manifest or a file cannot be read; names it.
        """
        return set(self._columns("instantTime", "action", since=time))

    def completion_times(self) -> dict[str, str]:
        """Time → completion time of the instants; those that Hudi archived without one are left out.

        Raises:
            CorruptTableError: the manifest or a file cannot be read; names it.
        """
        return {time: completed for time, completed in self._columns("instantTime", "completionTime") if completed}

    def _columns(self, first: str, second: str, *, since: str = "") -> Iterator[tuple[str, str]]:
        """Two columns of the instants in the files that go up to a time or beyond it."""
        for file in self._files(self._latest_version()):
            name = str(file["fileName"])
            if name.split("_")[1] < since:
                continue
            try:
                with self.storage.filesystem.open_input_file(self.storage.full_path(self._path(name))) as source:
                    rows = pq.read_table(source, columns=[first, second])
            except (OSError, pa.ArrowException) as error:
                raise CorruptTableError(
                    f"a file of the timeline's archive cannot be read: file={self._path(name)} ({error})",
                    remedy="restore it from a backup",
                ) from error
            yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)

    def add(self, name: str, size: int, create: Callable[[str, bytes], bool]) -> None:
        """Let a file count that lies in the folder; may be repeated.

        Args:
            name: of the file.
            size: its bytes.
            create: writes a file unless one exists.

        Raises:
            CorruptTableError: the manifest cannot be read.
        """
        version = self._latest_version()
        files = self._files(version)
        if any(file["fileName"] == name for file in files):
            return
        manifest = json.dumps({"files": [*files, {"fileName": name, "fileLen": size}]}, indent=2)
        create(self._path(f"{_MANIFEST}{version + 1}"), manifest.encode())
        self.storage.flush(folders=[self.folder])
        # As Hudi does. Without this file the greatest manifest counts, so nobody who was paused here does any harm.
        self.storage.delete_files([self._path(_VERSION_FILE)])
        create(self._path(_VERSION_FILE), str(version + 1).encode())
        self.storage.flush(folders=[self.folder])

    def _latest_version(self) -> int:
        content = self.storage.read_bytes(self._path(_VERSION_FILE))
        if content is not None and content.strip().isdigit():
            return int(content)
        # Hudi removes the file before it writes it again, and then goes by the manifests itself.
        numbers = (file.name.removeprefix(_MANIFEST) for file in self.storage.list_files(self.folder))
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def _files(self, version: int) -> list[dict[str, object]]:
        if version == 0:
            return []
        path = self._path(f"{_MANIFEST}{version}")
        try:
            files: list[dict[str, object]] = parse_json(self.storage.read_bytes(path) or b"")["files"]
            return [{"fileName": file["fileName"], "fileLen": file["fileLen"]} for file in files]
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptTableError(
                f"the list of the timeline's archived files cannot be read: file={path} ({type(error).__name__}: "
                f"{error})",
                remedy="restore it from a backup, or let Hudi archive once",
            ) from error

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"
