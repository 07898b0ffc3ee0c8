"""Files of records and of record keys that a user hands over: JSON, CSV, Parquet and Arrow, or standard input."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq

from rli.cli.files.column_types import ExpectedColumns, require_own_types, typed_columns, without_empty
from rli.cli.files.given_file import GivenFile
from rli.cli.files.json_columns import JsonColumns
from rli.cli.files.json_source import BLOCK_BYTES, JsonSource
from rli.cli.files.lines import csv_line, json_line, malformed_csv_line, malformed_json_line
from rli.cli.files.nested_names import with_simple_names_inside
from rli.errors import InvalidInputError, SchemaError, SettingsError
from rli.hudi.column_names import require_names, simple_name

_COLUMN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KNOWN: Final = "use .jsonl, .ndjson, .json, .csv (each also with .gz), .parquet or .arrow, or give --format"
_ARROW_ROW: Final = re.compile(r" in row (\d+)$")


class FileKind(StrEnum):
    """What a file of records is written in."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"

    @property
    def is_text(self) -> bool:
        return self in {FileKind.JSON, FileKind.CSV}


_KINDS: Final = {
    ".json": FileKind.JSON,
    ".jsonl": FileKind.JSON,
    ".ndjson": FileKind.JSON,
    ".csv": FileKind.CSV,
    ".parquet": FileKind.PARQUET,
    ".arrow": FileKind.ARROW,
    ".feather": FileKind.ARROW,
}
_STARTS: Final = {b"{": FileKind.JSON, b"[": FileKind.JSON, b"PAR1": FileKind.PARQUET, b"ARROW1": FileKind.ARROW}


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records.

    Attributes:
        file: as the user gave it.
        kind: as the user says, or by the ending of the file's name, or the beginning of standard input.
    """

    file: GivenFile
    kind: FileKind

    @classmethod
    def at(cls, path: str, kind: FileKind | None = None) -> RecordFile:
        """The file at a path, or standard input.

        Raises:
            InvalidInputError: there is none.
            SettingsError: its name has an ending that says nothing.
        """
        file = GivenFile.at(path)
        found = kind or kind_by_name(file)
        if found is None and file.content is not None:
            found = kind_by_content(file.content) or FileKind.CSV
        if found is None:
            raise SettingsError(f"the name of the file does not tell its format: file={path}", remedy=_KNOWN)
        return cls(file, found)

    def read(self, expected: ExpectedColumns, *, rename_columns: bool = False) -> pa.Table:
        """The records, with the table's types where the table has the column.

        Args:
            expected: what the table knows of its columns.
            rename_columns: bring names into the form ``domain_name``; else other names are refused.

        Raises:
            InvalidInputError: the file is malformed, or a value does not fit its column.
            SchemaError: a column has a name that a table cannot hold.
        """
        source = JsonSource(self.file, expected.kept_as_string if self.kind is FileKind.JSON else ())
        found = self._parsed({}, source)
        if rename_columns and any(field.type.num_fields for field in found.schema):
            if self.kind is FileKind.JSON:
                source = JsonSource(self.file, source.kept, renames=True)
                found = self._parsed({}, source)
            else:
                found = with_simple_names_inside(found, self.file)
        names = _column_names(found.column_names, self.file, rename=rename_columns)
        expected.require_declared(names, source.met, self.file)
        records = found.rename_columns(names)
        if self.kind is FileKind.CSV:
            typed = typed_columns(records, expected, self._place_of_value)
        elif self.kind is FileKind.JSON:
            original = dict(zip(names, found.column_names, strict=True))
            _require_names_inside(records.schema, self.file)
            parse = partial(self._parsed, source=source)
            typed = JsonColumns(original, parse, source).typed(records, expected)
        else:
            require_own_types(records, expected, self.file)
            typed = records
        return without_empty(typed, expected, self.file)

    def place(self, row: int) -> str:
        """Where a record is, for messages: its line in a text file, or its number in another file."""
        if not self.kind.is_text:
            return f"{self.file.place(None)} row={row}"
        line_of = csv_line if self.kind is FileKind.CSV else json_line
        return self.file.place(line_of(self.file, row))

    def _place_of_value(self, column: str, row: int) -> str:
        return f"{self.place(row)} column={column}"

    def _parsed(self, types: Mapping[str, pa.DataType], source: JsonSource) -> pa.Table:
        """The file's content: columns in ``types`` are read as these, the others as what they look like."""
        try:
            match self.kind:
                case FileKind.JSON:
                    return source.parse(types)
                case FileKind.CSV:
                    return _read_csv(self.file)
                case FileKind.PARQUET:
                    return pq.read_table(self._binary(), partitioning=None)
                case FileKind.ARROW:
                    return pa_feather.read_table(self._binary(), memory_map=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, EOFError, ValueError, RecursionError) as error:
            self.file.require_readable()
            raise InvalidInputError(
                f"the file cannot be read as {self.kind}: {self._place_of_failure(error)} "
                f"({_ARROW_ROW.sub('', str(error))})",
                remedy="check its format and content",
            ) from error

    def _binary(self) -> str | pa.BufferReader:
        return self.file.path if self.file.content is None else pa.BufferReader(self.file.content)

    def _place_of_failure(self, error: Exception) -> str:
        try:
            if self.kind is FileKind.CSV:
                return self.file.place(malformed_csv_line(self.file))
            if self.kind is FileKind.JSON:
                line = malformed_json_line(self.file)
                row = _ARROW_ROW.search(str(error))
                if line is None and row is not None:
                    # It is well-formed, but its records do not fit each other.
                    line = json_line(self.file, int(row[1]))
                return self.file.place(line)
        except (OSError, ValueError):
            # The file is no text, or no whole gzip file.
            pass
        return self.file.place(None)


def kind_by_name(file: GivenFile) -> FileKind | None:
    """What the ending of a file's name says; None if it says nothing."""
    kind = _KINDS.get(file.ending)
    return None if kind is not None and not kind.is_text and file.path.endswith(".gz") else kind


def kind_by_content(content: bytes) -> FileKind | None:
    """What the first bytes of standard input say; None for text that is no JSON."""
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    return next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), None)


def read_lines(file: GivenFile) -> list[str]:
    """The lines of a text file, without their ends; empty ones are left out.

    Raises:
        InvalidInputError: it is no UTF-8 text.
    """
    try:
        with file.open() as stream:
            lines = stream.read().decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        file.require_readable()
        raise InvalidInputError(
            f"the file cannot be read as text: {file.place(None)} ({error})",
            remedy="give UTF-8 text with one record key per line",
        ) from error
    return [line for line in (line.removesuffix("\r") for line in lines) if line]


def _column_names(found: Sequence[str], file: GivenFile, *, rename: bool) -> list[str]:
    meta = [name for name in found if name.startswith("_hoodie_")]
    names = [simple_name(name) if rename and name not in meta else name for name in found]
    unfit = [name for name in names if not _COLUMN_NAME.fullmatch(name)]
    if unfit:
        raise SchemaError(
            f"invalid column names, only ASCII letters, digits and _ are allowed: {file.place(None)} columns={unfit}",
            remedy=f"give --rename-columns to have {unfit[0]!r} written as {simple_name(unfit[0])!r}",
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInputError(
            f"columns occur twice: {file.place(None)} columns={repeated}", remedy="rename them in the file"
        )
    return names


def _require_names_inside(schema: pa.Schema, file: GivenFile) -> None:
    try:
        require_names(schema)
    except SchemaError as error:
        raise SchemaError(
            f"{error.problem}: {file.place(None)}",
            remedy="give --rename-columns, or keep the column as a string with --column-type COLUMN=string",
        ) from error


def _read_csv(file: GivenFile) -> pa.Table:
    """All columns as text: which type suits a column, only all of its values tell."""
    read = pa_csv.ReadOptions(block_size=BLOCK_BYTES)
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    with file.open() as stream:
        names = pa_csv.open_csv(stream, read_options=read, parse_options=parse).schema.names
    # Nothing at all is null, "" is an empty text, and NA may be Namibia.
    convert = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with file.open() as stream:
        return pa_csv.read_csv(stream, read_options=read, parse_options=parse, convert_options=convert)
