"""Columns of JSON files: what JSON's own types do not tell, and integers that a double cannot hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.cli.files.column_types import ExpectedColumns, fitted_column
from rli.cli.files.json_source import JsonSource, Literal, literals_in
from rli.cli.files.lines import json_line
from rli.cli.files.text_columns import guessed_times
from rli.cli.output import print_note
from rli.errors import InvalidInputError

_SAFE_INTEGER: Final = 2.0**53
"""From here on a double does not hold every integer."""
_SAFE_SINGLE: Final = 2.0**24

Parse = Callable[[Mapping[str, pa.DataType]], pa.Table]


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """Gives the columns of one file their types.

    Attributes:
        original: for each column its name in the file.
        parse: reads the file, some columns as given types.
        source: the file.
    """

    original: Mapping[str, str]
    parse: Parse
    source: JsonSource

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
            reread = self._reread(wanted, expected)
            records = reread.select(list(self.original.values())).rename_columns(list(self.original))
        columns = {name: self._typed(name, records, found, expected) for name in records.column_names}
        return pa.table(columns) if columns else records

    def _reread(self, wanted: Mapping[str, pa.DataType], expected: ExpectedColumns) -> pa.Table:
        try:
            return self.parse({self.original[name]: kind for name, kind in wanted.items()})
        except InvalidInputError:
            for name in wanted:
                values = [record.get(self.original[name]) for record in self.source.records()]
                if not any(isinstance(value, dict | list | bool) for value in values):
                    # Names the value that does not fit, and the type with which it does.
                    fitted_column(pa.chunked_array([pa.array(values, pa.string())]), name, expected, self._place)
            raise

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
        values = [record.get(self.original[name]) for record in self.source.records()]
        row = next(
            (
                row
                for row, value in enumerate(values)
                if any(_is_changed(literal, column.type) for literal in literals_in(value))
            ),
            None,
        )
        if row is None or name in expected.declared:
            return column
        if expected.type_of(name) is not None or not pa.types.is_floating(column.type) or name == expected.ordering:
            raise InvalidInputError(
                f"a double cannot hold an integer: {self._place(name, row)} value={json.dumps(values[row])}",
                remedy="write it as a string in the file",
            )
        print_note(f"kept as strings, because a number would change: {self._place(name, row)} value={values[row]}")
        return pa.chunked_array([pa.array(values, pa.string())])

    def _place(self, column: str, row: int) -> str:
        return f"{self.source.file.place(json_line(self.source.file, row))} column={column}"


def _type_to_read(field: pa.Field, expected: ExpectedColumns) -> pa.DataType | None:
    """The type to read a column as, where it is not the one that its values look like."""
    known = expected.type_of(field.name)
    is_text = pa.types.is_string(field.type) or pa.types.is_timestamp(field.type)
    if is_text:
        is_read_as_string = known is None or pa.types.is_temporal(known) or pa.types.is_string(known)
        kind = pa.string() if is_read_as_string else known
    else:
        kind = None if known is None or pa.types.is_string(known) else known
    return kind if kind != field.type else None


def _may_have_lost_digits(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether a column holds doubles, at any depth, of a size where these do not hold every integer."""
    kind = column.type
    if pa.types.is_floating(kind):
        safe = _SAFE_SINGLE if pa.types.is_float32(kind) else _SAFE_INTEGER
        return bool(pc.any(pc.greater_equal(pc.abs(column), pa.scalar(safe, kind))).as_py())
    if pa.types.is_struct(kind):
        return any(_may_have_lost_digits(pc.struct_field(column, [i])) for i in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _may_have_lost_digits(pc.list_flatten(column))
    return False


def _is_changed(literal: Literal, kind: pa.DataType) -> bool:
    """Whether a number is another one as a floating-point number, in a column of that type or inside of it."""
    held = float(pa.scalar(float(literal)).cast(pa.float32()).as_py()) if pa.types.is_float32(kind) else float(literal)
    if held in {float("inf"), float("-inf")}:
        return "inf" not in literal.lower()
    return literal.removeprefix("-").isdigit() and int(held) != int(literal)
