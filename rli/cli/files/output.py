"""Files that ``rli read`` writes records to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq

from rli.cli.output import to_json
from rli.errors import SchemaError, SettingsError

_BATCH_ROWS: Final = 10_000


def require_known_ending(path: str) -> None:
    """Refuse a name that does not tell its format; raises ``SettingsError``."""
    if _ending(path) not in _WRITERS:
        raise SettingsError(f"the name of the file does not tell its format: file={path}; use {', '.join(_WRITERS)}")


def write_records(records: pa.Table, path: str) -> None:
    """Write records in the format that the name's ending says; a file that is there is replaced once all is written.

    Raises:
        SchemaError: the format cannot hold a column's type.
    """
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        _WRITERS[_ending(path)](records, unfinished)
        os.replace(unfinished, path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"the format cannot hold a column of the table: file={path} ({error}); leave the column out with "
            "--columns, or write .parquet or .arrow"
        ) from error
    finally:
        if os.path.exists(unfinished):
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
