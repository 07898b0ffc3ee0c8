"""Files that tell the columns of a new table: an Avro schema, or a file of records with types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from rli.cli.files.given_file import GivenFile
from rli.errors import CorruptTableError, InvalidInputError, SettingsError
from rli.hudi.avro_schema import from_avro


def read_schema(path: str) -> pa.Schema:
    """The columns that a file tells; no record is read.

    Raises:
        InvalidInputError: there is no such file, or it tells no schema.
        SettingsError: its name has another ending.
        SchemaError: a column has a type that Arrow cannot hold.
    """
    file = GivenFile.at(path)
    read = _READERS.get(file.ending)
    if read is None or path.endswith(".gz"):
        raise SettingsError(
            f"the name of the file does not tell its format: file={path}", remedy=f"use {', '.join(_READERS)}"
        )
    try:
        found = read(path)
    except (pa.ArrowException, CorruptTableError, OSError, ValueError) as error:
        file.require_readable()
        raise InvalidInputError(
            f"the file tells no schema: file={path} ({error})", remedy="check its content"
        ) from error
    # Metadata of the file's writer, pandas among them, is not the table's.
    return found.remove_metadata()


def _avro(path: str) -> pa.Schema:
    with open(path, encoding="utf-8-sig") as file:
        return from_avro(file.read())


def _arrow(path: str) -> pa.Schema:
    with pa.OSFile(path) as source:
        return pa.ipc.open_file(source).schema


_READERS: Final[Mapping[str, Callable[[str], pa.Schema]]] = {
    ".avsc": _avro,
    ".parquet": pq.read_schema,
    ".arrow": _arrow,
    ".feather": _arrow,
}
