"""Files that commands write: records of ``rli read``, the page of ``rli report``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq

from rli.cli.output import to_json
from rli.errors import InvalidInputError, SchemaError, SettingsError

_BATCH_ROWS: Final = 10_000


def require_output(path: str) -> None:
    """Refuse a file that cannot be written, before there is anything to write.

    Raises:
        SettingsError: the name does not tell its format.
        InvalidInputError: its folder does not exist or cannot be written, or a folder or a device has its name.
    """
    if _ending(path) not in _WRITERS:
        raise SettingsError(
            f"the name of the file does not tell its format: file={path}", remedy=f"use {', '.join(_WRITERS)}"
        )
    require_place(path)


def require_place(path: str) -> None:
    """Refuse a place that cannot be written; raises ``InvalidInputError`` as ``require_output``."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise InvalidInputError(
            f"the folder does not exist: file={path} folder={folder}", remedy="make it, or name another file"
        )
    if os.path.lexists(target) and not os.path.isfile(target):
        raise InvalidInputError(f"this is not a regular file: file={path}", remedy="name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInputError(
            f"permission to write is denied: file={path} folder={folder}", remedy="name a file in a folder of your own"
        )


def write_records(records: pa.Table, path: str) -> None:
    """Write records in the format that the name's ending says; a file that is there is replaced once all is written.

    A link stays, and the file that it names is replaced.

    Raises:
        SchemaError: the format cannot hold a column's type.
        InvalidInputError: the file cannot be written; an earlier file of the name is as it was.
    """
    try:
        _replaced(path, lambda unfinished: _WRITERS[_ending(path)](records, unfinished))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"the format cannot hold a column of the table: file={path} ({error})",
            remedy="leave the column out with --columns, or write .parquet or .arrow",
        ) from error


def replace_file(path: str, content: bytes) -> None:
    """Write a file; one that is there is replaced once all is written. Raises ``InvalidInputError`` as ``write_records``."""
    _replaced(path, lambda unfinished: Path(unfinished).write_bytes(content))


def _replaced(path: str, write: Callable[[str], object]) -> None:
    target = os.path.realpath(path)
    unfinished = f"{target}.{os.getpid()}.tmp"
    try:
        write(unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InvalidInputError(
            f"the file cannot be written: file={path} ({reason})", remedy="check permissions and free space"
        ) from error
    finally:
        with suppress(OSError):
            os.unlink(unfinished)


def _write_json_lines(records: pa.Table, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for batch in records.to_batches(_BATCH_ROWS):
            file.writelines(json.dumps(row, default=to_json, ensure_ascii=False) + "\n" for row in batch.to_pylist())


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()


_WRITERS: Final[dict[str, Callable[[pa.Table, str], None]]] = {
    ".parquet": pq.write_table,
    ".csv": pa_csv.write_csv,
    ".jsonl": _write_json_lines,
    ".ndjson": _write_json_lines,
    ".arrow": pa_feather.write_feather,
}
