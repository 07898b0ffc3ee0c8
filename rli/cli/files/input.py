"""Files of records and of record keys that a user hands over: JSON, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from rli.cli.files.column_types import ExpectedColumns, typed_columns, without_empty
from rli.cli.files.json_columns import JsonColumns
from rli.cli.files.json_source import BLOCK_BYTES, JsonSource
from rli.errors import InvalidInputError, SchemaError, SettingsError
from rli.hudi.column_names import require_names, simple_name

_COLUMN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KNOWN: Final = "use .jsonl, .ndjson, .json, .csv (each also with .gz) or .parquet"


class FileKind(StrEnum):
    """What a file of records is written in."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_KINDS: Final = {
    ".json": FileKind.JSON,
    ".jsonl": FileKind.JSON,
    ".ndjson": FileKind.JSON,
    ".csv": FileKind.CSV,
    ".parquet": FileKind.PARQUET,
}


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records.

    Attributes:
        path: as the user gave it.
        kind: by the ending of its name.
    """

    path: str
    kind: FileKind

    @classmethod
    def at(cls, path: str) -> RecordFile:
        """The file at a path.

        Raises:
            InvalidInputError: there is none.
            SettingsError: its name has an ending that says nothing.
        """
        _require_file(path)
        kind = _KINDS.get(os.path.splitext(path.removesuffix(".gz"))[1].lower())
        if kind is None or (kind is FileKind.PARQUET and path.endswith(".gz")):
            raise SettingsError(f"the name of the file does not tell its format: file={path}; {_KNOWN}")
        return cls(path, kind)

    def read(self, expected: ExpectedColumns, *, rename_columns: bool = False) -> pa.Table:
        """The records, with the table's types where the table has the column.

        Args:
            expected: what the table knows of its columns.
            rename_columns: bring names into the form ``domain_name``; else other names are refused.

        Raises:
            InvalidInputError: the file is malformed, or a value does not fit its column.
            SchemaError: a column has a name that a table cannot hold.
        """
        source = JsonSource(self.path, expected.kept_as_text if self.kind is FileKind.JSON else ())
        found = self._parsed({}, source)
        if rename_columns and self.kind is FileKind.JSON and any(field.type.num_fields for field in found.schema):
            source = JsonSource(self.path, source.kept, renames=True)
            found = self._parsed({}, source)
        names = _column_names(found.column_names, self.path, rename=rename_columns)
        records = found.rename_columns(names)
        if self.kind is FileKind.CSV:
            typed = typed_columns(records, expected, self._place)
        elif self.kind is FileKind.JSON:
            original = dict(zip(names, found.column_names, strict=True))
            _require_names_inside(records.schema, self.path)
            parse = partial(self._parsed, source=source)
            typed = JsonColumns(self.path, original, parse, source).typed(records, expected)
        else:
            typed = records
        return without_empty(typed, expected, self.path)

    def _place(self, column: str, row: int) -> str:
        return f"file={self.path} line={_csv_line(self.path, row)} column={column}"

    def _parsed(self, types: Mapping[str, pa.DataType], source: JsonSource) -> pa.Table:
        """The file's content: columns in ``types`` are read as these, the others as what they look like."""
        try:
            if self.kind is FileKind.JSON:
                return source.parse(types)
            return _read_csv(self.path) if self.kind is FileKind.CSV else _read_parquet(self.path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, EOFError, ValueError, RecursionError) as error:
            require_readable(self.path)
            raise InvalidInputError(
                f"the file cannot be read as {self.kind}: file={self.path} ({error}); check its format and content"
            ) from error


def read_lines(path: str) -> list[str]:
    """The lines of a text file, without their ends; empty ones are left out.

    Raises:
        InvalidInputError: there is no such file, or it is no UTF-8 text.
    """
    _require_file(path)
    try:
        with pa.input_stream(path, compression="detect") as stream:
            lines = stream.read().decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        require_readable(path)
        raise InvalidInputError(
            f"the file cannot be read as text: file={path} ({error}); give UTF-8 text with one record key per line"
        ) from error
    return [line for line in (line.removesuffix("\r") for line in lines) if line]


def require_readable(path: str) -> None:
    """Raise ``InvalidInputError`` for a file whose bytes the operating system does not give, whatever its format."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise InvalidInputError(
            f"the file cannot be read: file={path} ({error.strerror}); check its permissions and the disk"
        ) from error


def _require_file(path: str) -> None:
    if not os.path.isfile(path):
        kind = "this is a folder" if os.path.isdir(path) else "there is no such file"
        raise InvalidInputError(f"{kind}: file={path}; name a file that exists")


def _column_names(found: Sequence[str], path: str, *, rename: bool) -> list[str]:
    meta = [name for name in found if name.startswith("_hoodie_")]
    names = [simple_name(name) if rename and name not in meta else name for name in found]
    unfit = [name for name in names if not _COLUMN_NAME.fullmatch(name)]
    if unfit:
        raise SchemaError(
            f"invalid column names, only ASCII letters, digits and _ are allowed: file={path} "
            f"columns={unfit}; give --rename-columns to have {unfit[0]!r} written as {simple_name(unfit[0])!r}"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInputError(f"columns occur twice: file={path} columns={repeated}; rename them in the file")
    return names


def _require_names_inside(schema: pa.Schema, path: str) -> None:
    try:
        require_names(schema)
    except SchemaError as error:
        raise SchemaError(
            f"{error}: give --rename-columns, or keep the column as text with --column-type COLUMN=string (file={path})"
        ) from error


def _read_csv(path: str) -> pa.Table:
    """All columns as text: which type suits a column, only all of its values tell."""
    read = pa_csv.ReadOptions(block_size=BLOCK_BYTES)
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    with pa.input_stream(path, compression="detect") as stream:
        names = pa_csv.open_csv(stream, read_options=read, parse_options=parse).schema.names
    # Nothing at all is null, "" is an empty text, and NA may be Namibia.
    convert = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with pa.input_stream(path, compression="detect") as stream:
        return pa_csv.read_csv(stream, read_options=read, parse_options=parse, convert_options=convert)


def _csv_line(path: str, row: int) -> int:
    """The line of a CSV file on which a record ends, both counted as people do: the header is on line 1."""
    with pa.input_stream(path, compression="detect") as stream:
        reader = csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
        records = (reader.line_num for record in reader if record)
        return next(islice(records, row + 1, None))


def _read_parquet(path: str) -> pa.Table:
    return pq.read_table(path, partitioning=None)
