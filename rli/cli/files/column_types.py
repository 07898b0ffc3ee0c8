"""Which type a column of a file gets: the table's where it has the column, and a key keeps its spelling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from rli.cli.files import text_columns
from rli.cli.files.declared_types import decimal_of_numbers, type_of_numbers, type_option
from rli.cli.files.given_file import GivenFile
from rli.cli.output import print_note
from rli.errors import CorruptTableError, InvalidInputError, SchemaError, SettingsError
from rli.hudi.schema_evolution import grows, smallest_decimal
from rli.table.table import Table, opened_table

Where = Callable[[str, int], str]
"""Says for a column and a row, counted from 0, where in the file the value is: ``file=day1.csv:3 column=…``."""


@dataclass(frozen=True, slots=True)
class ExpectedColumns:
    """What is known of the columns of a file before it is read.

    Attributes:
        schema: of the table's records; None in a table that was never written.
        keys: record-key and partition columns, whose spelling counts: ``007`` is not ``7``.
        ordering: the ordering column, whose type decides which record wins.
        declared: types that the user gives to columns, and to the parts of columns that are kept as text (``a.b``).
    """

    schema: pa.Schema | None
    keys: frozenset[str]
    ordering: str | None = None
    declared: Mapping[str, pa.DataType] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, declared: Mapping[str, pa.DataType] | None = None) -> ExpectedColumns:
        """What a table and the user know.

        Raises:
            SchemaError: the user gives a column another type than the table does.
        """
        properties = opened_table(table).definition.properties
        keys = frozenset((*properties.record_key_fields, *properties.partition_fields))
        expected = cls(_schema_to_write(table), keys, properties.ordering_field, declared or {})
        for path, kind in expected.declared.items():
            stored = expected.stored_type(path)
            if stored not in {None, kind} and (path in keys or not grows(stored, kind)):
                raise SchemaError(
                    f"the table's column has another type: table={table.location} column={path} type={stored} "
                    f"given={kind}",
                    remedy=f"leave --column-type {path} out",
                )
        return expected

    def stored_type(self, path: str) -> pa.DataType | None:
        """The table's type of a column, or of a part of it; None if it is new."""
        return None if self.schema is None else _type_at(pa.struct(list(self.schema)), path.split("."))

    def type_of(self, name: str) -> pa.DataType | None:
        """The type that a column must have; None if its values decide."""
        # A declared type of a stored column is the same, or wider: the column grows.
        return self.declared.get(name) or self.stored_type(name)

    def require_declared(self, names: Collection[str], parts: Collection[Sequence[str]], file: GivenFile) -> None:
        """Refuse a type for a column that neither the file nor the table has.

        Args:
            names: of the columns of the file.
            parts: what was found in the file of columns and parts of columns to be kept as text.
            file: for messages.

        Raises:
            SchemaError: there is no such column, or no such part of a column.
        """
        for path in self.declared:
            is_found = path in names if "." not in path else path.split(".") in parts
            if not is_found and self.stored_type(path) is None:
                raise SchemaError(
                    f"neither the file nor the table has the column of a --column-type: {file.place(None)} "
                    f"column={path} found={list(names)}",
                    remedy="correct the name, or leave it out",
                )

    @property
    def kept_as_string(self) -> list[list[str]]:
        """The columns that the user declares as text, and the parts of columns: their names from the column on."""
        return [path.split(".") for path, kind in self.declared.items() if pa.types.is_string(kind)]


def _type_at(kind: pa.DataType, names: Sequence[str]) -> pa.DataType | None:
    """The type of a part of a column; lists on the way have no name."""
    while names and pa.types.is_list(kind):
        kind = kind.value_type
    if not names:
        return kind
    position = kind.get_field_index(names[0]) if pa.types.is_struct(kind) else -1
    return _type_at(kind.field(position).type, names[1:]) if position >= 0 else None


def _schema_to_write(table: Table) -> pa.Schema | None:
    try:
        return table.schema
    except CorruptTableError:
        # A commit that a power cut has torn is undone by the write that is about to begin; its columns do not count.
        table.sync_index()
        return table.schema


def typed_columns(records: pa.Table, expected: ExpectedColumns, where: Where) -> pa.Table:
    """The records of a file; columns of text as CSV has them get their types.

    Args:
        records: as the file has them.
        expected: what is known.
        where: of a value, for messages.

    Raises:
        InvalidInputError: a value does not fit its column, or a key would change its spelling.
    """
    columns = {name: _typed(records.column(name), name, expected, where) for name in records.column_names}
    return pa.table(columns) if columns else records


def require_own_types(records: pa.Table, expected: ExpectedColumns, file: GivenFile) -> None:
    """Refuse other types for the columns of a file that has types.

    Raises:
        SettingsError: the user gives a column another type than the file does.
    """
    for name, kind in expected.declared.items():
        if "." in name or (name in records.column_names and records.schema.field(name).type != kind):
            raise SettingsError(
                f"the columns of this file have types, and --column-type is for text files: {file.place(None)} "
                f"column={name} given={kind}",
                remedy="leave it out, or cast the column in the file",
            )


def without_empty(records: pa.Table, expected: ExpectedColumns, file: GivenFile) -> pa.Table:
    """The records without new columns that hold no value: nothing tells their type."""
    empty = [
        name
        for name in records.column_names
        if expected.type_of(name) is None
        and records.column(name).null_count == records.num_rows
        # A key is missed later, with a message of its own.
        and not (name in expected.keys and pa.types.is_string(records.column(name).type))
    ]
    if empty:
        print_note(f"columns left out, as they hold no value: {file.place(None)} columns={empty}")
    return records.drop_columns(empty)


def fitted_column(texts: pa.ChunkedArray, name: str, expected: ExpectedColumns, where: Where) -> pa.ChunkedArray:
    """A column of text in the type that the column must have.

    Raises:
        InvalidInputError: a value does not fit.
    """
    kind = expected.type_of(name)
    try:
        return text_columns.fitted(texts, kind, is_lenient=name in expected.declared or name in expected.keys)
    except text_columns.UnfitStringError as error:
        raise InvalidInputError(
            f"a value does not fit its column: {where(name, error.row)} value={texts[error.row].as_py()!r} type={kind} "
            f"({error})",
            remedy=f"{_remedy(texts, name, kind, expected)}",
        ) from error


def _remedy(texts: pa.ChunkedArray, name: str, kind: pa.DataType, expected: ExpectedColumns) -> str:
    """What to do about a value that does not fit; for numbers, the type that holds all of them."""
    numbers = text_columns.numbers_of(texts) if text_columns.is_number(kind) else None
    if numbers is None or name in expected.keys:
        return "correct the file"
    for wide in (kind, _wider(kind, numbers)):
        if wide is not None and text_columns.holds_numbers(wide, texts):
            reason = "to write the values of the numbers" if wide == kind else "which makes the column wider"
            return f"correct the file, or give {type_option(name, wide)}, {reason}"
    suited = type_of_numbers(numbers) or pa.string()
    return (
        f"no wider type holds these numbers and those of the table: correct the file, or write them to a new column "
        f"with {type_option('NEW', suited)}"
    )


def _wider(kind: pa.DataType, numbers: Sequence[str]) -> pa.DataType | None:
    """The type into which a column of numbers could grow for some numbers."""
    if pa.types.is_decimal(kind):
        suited = decimal_of_numbers(numbers)
        return None if suited is None else smallest_decimal(kind, suited)
    return next((wide for wide in (pa.int64(), pa.float64()) if grows(kind, wide)), None)


def _typed(texts: pa.ChunkedArray, name: str, expected: ExpectedColumns, where: Where) -> pa.ChunkedArray:
    known = expected.type_of(name)
    if name in expected.keys:
        return _key_column(texts, name, expected, where)
    if known is not None:
        return fitted_column(texts, name, expected, where)
    typed = text_columns.guessed(texts)
    row = text_columns.first_changed_number(texts) if pa.types.is_string(typed.type) else None
    if row is not None:
        _report_string(name, where(name, row), texts, row, is_ordering=name == expected.ordering)
    return typed


def _report_string(name: str, where: str, texts: pa.ChunkedArray, row: int, *, is_ordering: bool) -> None:
    """Say that a new column of numbers is kept as text: its numbers would not be spelled as they are."""
    suited = type_of_numbers(text_columns.numbers_of(texts) or ())
    option = None if suited is None else type_option(name, suited)
    value = texts[row].as_py()
    if is_ordering:
        raise InvalidInputError(
            f"the ordering column would hold strings (9 > 10), because a number would change: {where} value={value!r}",
            remedy=f"correct the file{'' if option is None else f', or give {option}'}",
        )
    remedy = "" if option is None else f"; if the column holds numbers, give {option}"
    print_note(f"kept as strings, because a number would change: {where} value={value!r}{remedy}")


def _key_column(texts: pa.ChunkedArray, name: str, expected: ExpectedColumns, where: Where) -> pa.ChunkedArray:
    """A key column in the type that it must have, or in the one that its values have, if no value changes."""
    known = expected.type_of(name)
    if known is None:
        guess = text_columns.guessed(texts)
        is_kept = _is_key_type(guess.type) and _first_change(guess, texts) is None
        return guess if is_kept else texts
    typed = fitted_column(texts, name, expected, where)
    row = _first_change(typed, texts)
    if row is not None:
        raise InvalidInputError(
            f"a key would change its spelling: {where(name, row)} value={texts[row].as_py()!r} becomes "
            f"{typed.cast(pa.string())[row].as_py()!r}, as the table's column is of type {known}",
            remedy="correct the file",
        )
    return typed


def _first_change(typed: pa.ChunkedArray, texts: pa.ChunkedArray) -> int | None:
    position: int = pc.index(pc.not_equal(typed.cast(pa.string()), texts), True).as_py()
    return position if position >= 0 else None


def _is_key_type(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind)
