"""Record keys that a user gives: as arguments, in a file, or on standard input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, TypeAlias

import pyarrow as pa
import typer

from rli.cli.files.column_types import ExpectedColumns
from rli.cli.files.given_file import GivenFile
from rli.cli.files.input import FileKind, RecordFile, kind_by_content, kind_by_name, read_lines
from rli.cli.files.placing import failures_placed
from rli.errors import InvalidInputError
from rli.table.table import Table, opened_table


class KeyFormat(StrEnum):
    """What a file of keys is written in."""

    LINES = "lines"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


KeysArgument: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY", help="Record keys; composite keys as a:1,b:2.", show_default=False),
]
FileOfKeysOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Read the keys from a file: .jsonl, .json, .csv, .parquet or .arrow with the record-key columns; any other "
        "file: one key per line. - for standard input.",
        show_default=False,
    ),
]
KeyFormatOption: TypeAlias = Annotated[
    KeyFormat | None,
    typer.Option(
        "--format",
        help="Format of the file. Default: by the ending of its name. Standard input: by its first bytes; CSV, if its "
        "first line names all record-key columns; else a key per line.",
        show_default=False,
    ),
]


def require_keys(keys: Sequence[str] | None, file: str | None) -> None:
    """Raise ``InvalidInputError`` unless a command has either keys or a file of them."""
    if bool(keys) == (file is not None):
        raise InvalidInputError("the command takes either keys or a file of keys", remedy="give KEY... or --file FILE")


@contextmanager
def keys_in(
    table: Table, keys: Sequence[str] | None, path: str | None, given: KeyFormat | None
) -> Iterator[list[str] | pa.Table]:
    """Keys as ``Table.delete`` takes them; errors of what is done with those of a file name the file.

    Args:
        table: whose keys they are.
        keys: that were given as arguments.
        path: of a file of keys; None for the arguments.
        given: format of the file; None for what its name or content says.

    Raises:
        InvalidInputError: there is no such file, or it is malformed.
    """
    if path is None:
        yield list(keys or ())
        return
    file = GivenFile.at(path)
    kind = _kind(file, table) if given is None else _file_kind(given)
    if kind is None:
        with failures_placed(file, lambda row: f"{file.place(None)} row={row}"):
            yield read_lines(file)
        return
    source = RecordFile(file, kind)
    with failures_placed(file, source.place):
        yield source.read(ExpectedColumns.of(table))


def _file_kind(given: KeyFormat) -> FileKind | None:
    """The format of the file's records; None for a key per line."""
    return None if given is KeyFormat.LINES else FileKind(given.value)


def _kind(file: GivenFile, table: Table) -> FileKind | None:
    if file.content is None:
        return kind_by_name(file)
    fields = opened_table(table).definition.properties.record_key_fields
    header = file.content.split(b"\n", 1)[0].decode(errors="replace").strip().split(",")
    is_csv = bool(fields) and {name.strip('"') for name in header} >= set(fields)
    return kind_by_content(file.content) or (FileKind.CSV if is_csv else None)
