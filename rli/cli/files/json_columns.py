"""Columns of JSON files: what JSON's own types do not tell, and integers that a double cannot hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from rli.cli.files.column_types import ExpectedColumns, fitted_column
from rli.cli.files.text_columns import guessed_times
from rli.cli.output import print_note
from rli.errors import InvalidInputError

BLOCK_BYTES: Final = 16 << 20
"""The longest record in a text file."""

_SAFE_INTEGER: Final = 2.0**53
"""From here on a double does not hold every integer."""

Parse = Callable[[Mapping[str, pa.DataType]], pa.Table]


class _Literal(str):
    """A number as the file spells it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """Gives the columns of one file their types.

    Attributes:
        path: of the file.
        original: for each column its name in the file.
        parse: reads the file, some columns as given types.
    """

    path: str
    original: Mapping[str, str]
    parse: Parse

    def typed(self, found: pa.Table, expected: ExpectedColumns) -> pa.Table:
        """The records with the types that the table has, or that no value is changed by.

        Args:
            found: read with the types that the values look like.
            expected: what is known of the columns.

        Raises:
            InvalidInputError: a value does not fit its column.
        """
        wanted = {field.name: kind for field in found.schema if (kind := _type_to_read(field, expected)) is not None}
        records = found
        if wanted:
            reread = self.parse({self.original[name]: kind for name, kind in wanted.items()})
            records = reread.select(list(self.original.values())).rename_columns(list(self.original))
        columns = {name: self._typed(name, records, found, expected) for name in records.column_names}
        return pa.table(columns) if columns else records

    def _typed(self, name: str, records: pa.Table, found: pa.Table, expected: ExpectedColumns) -> pa.ChunkedArray:
        column, known = records.column(name), expected.type_of(name)
        if known is not None and pa.types.is_string(known) and pa.types.is_integer(column.type):
            return column.cast(known)
        if known is not None and pa.types.is_string(column.type):
            return fitted_column(column, name, expected, self._place)
        if _may_have_lost_digits(column):
            return self._with_all_digits(name, column, expected)
        if known is None and name not in expected.keys and pa.types.is_timestamp(found.schema.field(name).type):
            times = guessed_times(column)
            return column if times is None else times
        return column

    def _with_all_digits(self, name: str, column: pa.ChunkedArray, expected: ExpectedColumns) -> pa.ChunkedArray:
        """The column, as text if it holds integers that a double changes."""
        values = [record.get(self.original[name]) for record in read_literals(self.path)]
        row = next((row for row, value in enumerate(values) if any(map(_is_changed, _literals(value)))), None)
        if row is None or name in expected.declared:
            return column
        if expected.type_of(name) is not None or not pa.types.is_floating(column.type) or name == expected.ordering:
            raise InvalidInputError(
                f"a double cannot hold an integer: {self._place(name, row)} value={json.dumps(values[row])}; write it "
                "as text in the file"
            )
        print_note(f"kept as text, because a number would change: {self._place(name, row)} value={values[row]}")
        return pa.chunked_array([pa.array(values, pa.string())])

    def _place(self, column: str, row: int) -> str:
        return f"file={self.path} record={row + 1} column={column}"


def read_json(path: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The records of a file; columns in ``types`` are read as these, the others as what they look like."""
    parse = pa_json.ParseOptions(
        explicit_schema=pa.schema(list(types.items())) if types else None,
        # Objects of a .json file may be spread over lines.
        newlines_in_values=_is_free_form(path),
    )
    read = pa_json.ReadOptions(block_size=BLOCK_BYTES)
    with pa.input_stream(path, compression="detect") as stream:
        if not parse.newlines_in_values:
            return pa_json.read_json(stream, read_options=read, parse_options=parse)
        content = stream.read()
    if content.lstrip()[:1] == b"[":
        content = "\n".join(json.dumps(record) for record in json.loads(content)).encode()
    return pa_json.read_json(pa.BufferReader(content), read_options=read, parse_options=parse)


def read_literals(path: str) -> Iterator[dict[str, Any]]:
    """The records of a file that ``read_json`` reads; numbers are texts, as the file spells them."""
    decoder = json.JSONDecoder(parse_int=_Literal, parse_float=_Literal)
    with pa.input_stream(path, compression="detect") as stream:
        text = stream.read().decode("utf-8-sig")
    if text.lstrip()[:1] == "[":
        yield from decoder.decode(text)
        return
    position = _next_object(text, 0)
    while position >= 0:
        record, position = decoder.raw_decode(text, position)
        yield record
        position = _next_object(text, position)


def _next_object(text: str, start: int) -> int:
    return text.find("{", start)


def _is_free_form(path: str) -> bool:
    return path.removesuffix(".gz").lower().endswith(".json")


def _type_to_read(field: pa.Field, expected: ExpectedColumns) -> pa.DataType | None:
    """The type to read a column as, where it is not the one that its values look like."""
    known = expected.type_of(field.name)
    is_text = pa.types.is_string(field.type) or pa.types.is_timestamp(field.type)
    if is_text:
        is_read_as_text = known is None or pa.types.is_temporal(known) or pa.types.is_string(known)
        kind = pa.string() if is_read_as_text else known
    else:
        kind = None if known is None or pa.types.is_string(known) else known
    return kind if kind != field.type else None


def _may_have_lost_digits(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether a column holds doubles, at any depth, of a size where these do not hold every integer."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.greater_equal(pc.abs(column), _SAFE_INTEGER)).as_py())
    if pa.types.is_struct(kind):
        return any(_may_have_lost_digits(pc.struct_field(column, [i])) for i in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _may_have_lost_digits(pc.list_flatten(column))
    return False


def _literals(value: object) -> Iterator[_Literal]:
    if isinstance(value, _Literal):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _literals(part)


def _is_changed(literal: _Literal) -> bool:
    digits = literal.removeprefix("-")
    return digits.isdigit() and (int(digits) >= 2**63 or int(float(digits)) != int(digits))
