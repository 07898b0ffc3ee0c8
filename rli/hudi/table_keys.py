"""Record keys and partition paths of records that callers give: one value has one key, and one key has one value.

A key is a text, formed of the values of key columns. So the values take the types of the table's columns first:
``1.0`` becomes ``1.00`` where the table's column has two decimals. A value that would change by that is an error. So is
a value that another value has the text of: Hudi joins the parts of a composite key, and of a partition path, without
escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.key_arrays import as_key_array, is_string
from rli.errors import InvalidKeyError, SchemaError
from rli.hudi.key_generator import (
    DEFAULT_PARTITION,
    EMPTY_PART,
    NULL_PART,
    KeyGenerator,
    is_key_type,
    require_record_keys,
)
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.schema import RESERVED_PREFIX
from rli.model import Scope

KEY_VALUE: Final = f"{RESERVED_PREFIX}key_value"
"""A working column of rows that name records: values of the table's only record-key column."""

_WIDEST_INTEGER: Final = pa.decimal128(20, 0)
_SAFE_DOUBLE: Final = 2.0**53
"""Beyond it a double may stand for several integers."""


@dataclass(frozen=True, slots=True)
class TableKeys:
    """Forms the keys and partition paths of records that a caller gives to a table. Picklable.

    Attributes:
        generator: of the table.
        types: the record-key and partition columns that the table has; none in a table that was never written, which
            takes the types of its first records.
    """

    generator: KeyGenerator
    types: pa.Schema

    @classmethod
    def of(cls, generator: KeyGenerator, schema: pa.Schema | None) -> TableKeys:
        """Of a table whose records have a schema; None for a table that was never written."""
        names = dict.fromkeys((*generator.record_key_fields, *generator.partition_fields))
        known = [] if schema is None else [schema.field(name) for name in names if name in schema.names]
        return cls(generator, pa.schema(known))

    def fitted(self, records: pa.Table) -> pa.Table:
        """The records with their key and partition columns in the table's types.

        Raises:
            SchemaError: a column has a type that does not fit, or occurs twice.
            InvalidKeyError: a value would change.
        """
        return self._fitted(records, self.types.names)

    def record_keys(self, records: pa.Table) -> pa.Array:
        """The record key of each record: string array, shape (n,).

        Raises:
            SchemaError: a key column is missing, occurs twice, or has a type that is no key or does not fit.
            InvalidKeyError: a record has no key, a value would change, or its key would be another value's, too.
        """
        fields = self.generator.record_key_fields
        fitting = self._fitted(records, fields)
        keys = self.generator.record_keys(fitting)
        if len(fields) > 1:
            _require_own_keys(fitting, fields)
        return keys

    def partition_paths(self, records: pa.Table, scope: Scope) -> pa.DictionaryArray:
        """The partition path of each record, dictionary-encoded, shape (n,); "" in a table without partitions.

        Args:
            records: with the partition columns.
            scope: where a key is unique. If in its partition, no other values may have the same path.

        Raises:
            SchemaError: a partition column is missing, or has a type that is no partition value or does not fit.
            InvalidKeyError: a value cannot be the name of a folder, or its folder would be another value's, too.
        """
        fields = self.generator.partition_fields
        fitting = self._fitted(records, fields)
        paths = self.generator.partition_paths(fitting)
        for name, values in _string_columns(fitting, fields):
            _refuse(values, pc.equal(values, DEFAULT_PARTITION), name, "the partition of null has the same path")
        if scope is Scope.PARTITION and not self.generator.url_encode:
            self._require_own_paths(fitting)
        return paths

    def given_keys(self, rows: pa.Table) -> pa.Array:
        """The record keys (string array, shape (n,)) of rows that name records.

        Args:
            rows: with whole record keys in ``_hoodie_record_key``, or with the record-key columns, or with the values of
                the only one of these in ``KEY_VALUE``.

        Raises:
            SchemaError, InvalidKeyError: as ``record_keys``.
        """
        if RECORD_KEY in rows.column_names:
            keys = as_key_array(rows.column(RECORD_KEY))
            require_record_keys(keys)
            return keys
        if KEY_VALUE not in rows.column_names:
            return self.record_keys(rows)
        try:
            return self.record_keys(pa.table({self.generator.record_key_fields[0]: rows.column(KEY_VALUE)}))
        except SchemaError as error:
            raise InvalidKeyError(
                f"record keys are neither strings nor values of the key column: {error.problem}", remedy=error.remedy
            ) from error

    def _fitted(self, records: pa.Table, names: Iterable[str]) -> pa.Table:
        for name in names:
            if records.column_names.count(name) > 1:
                raise SchemaError(
                    f"a column occurs twice: column={name} found={records.column_names}", remedy="rename one"
                )
            if name not in records.column_names or name not in self.types.names:
                continue
            field = self.types.field(name)
            column = records.column(name)
            if column.type != field.type:
                position = records.schema.get_field_index(name)
                records = records.set_column(position, name, _fitted(column, field))
        return records

    def _require_own_paths(self, fitting: pa.Table) -> None:
        """Refuse values behind which the next column's part of the path could begin too early."""
        texts = dict(_string_columns(fitting, self.generator.partition_fields))
        for name, following in pairwise(self.generator.partition_fields):
            if name in texts:
                separator = f"/{following}=" if self.generator.hive_style else "/"
                _refuse(
                    texts[name],
                    pc.match_substring(texts[name], separator),
                    name,
                    f"other values have the same partition path, because of {separator!r}, and keys are unique in their "
                    "partition only",
                    "change it, or create the table with url_encode_partitions=True",
                )


def _fitted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column in the type of the table's field; unchanged if its own type is none of which keys are formed."""
    arriving = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_key_type(field.type) and _may_fit(arriving, field.type)):
        if not is_key_type(arriving):
            return column
        raise SchemaError(
            f"a column's type does not fit the table: column={field.name} table={field.type} records={arriving}",
            remedy="cast it" + ("" if is_key_type(field.type) else ", or give whole record keys as strings"),
        )
    try:
        return _converted(column, field.type)
    except pa.ArrowInvalid as error:
        row = _first_unfit(column, field.type)
        raise InvalidKeyError(
            f"a key or partition value would change in its column: column={field.name} type={field.type} row={row} "
            f"value={column[row].as_py()!r} ({error})",
            row=row,
            remedy="correct the value",
        ) from error


def _may_fit(arriving: pa.DataType, stored: pa.DataType) -> bool:
    """Whether values of a type may be values of a key column of the table."""
    if pa.types.is_null(arriving):
        return True
    if pa.types.is_integer(stored):
        return pa.types.is_integer(arriving) or pa.types.is_decimal(arriving) or pa.types.is_floating(arriving)
    if pa.types.is_decimal(stored):
        return pa.types.is_integer(arriving) or pa.types.is_decimal(arriving)
    return any(
        is_of_kind(arriving) and is_of_kind(stored) for is_of_kind in (is_string, pa.types.is_date, pa.types.is_boolean)
    )


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The column in a type; raises ``pa.ArrowInvalid`` if a value would change."""
    if pa.types.is_floating(column.type):
        # Data frames have doubles, and NaN for a missing value, where an integer column lacks a value.
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if pc.any(pc.greater(pc.abs(column), _SAFE_DOUBLE)).as_py():
            raise pa.ArrowInvalid("a double of this size may have been another integer")
    if pa.types.is_integer(column.type) and pa.types.is_decimal(kind):
        column = column.cast(_WIDEST_INTEGER)
    return column.cast(kind)


def _first_unfit(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row whose value would change in a type; there is one."""
    start, end = 0, len(column)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            _converted(column.slice(start, middle - start), kind)
        except pa.ArrowInvalid:
            end = middle
        else:
            start = middle
    return start


def _require_own_keys(fitting: pa.Table, fields: Sequence[str]) -> None:
    """Refuse parts of composite keys that other parts have the text of.

    Without them each key has one reading: a part ends where the next column's name first follows.
    """
    following = dict(pairwise(fields))
    for name, values in _string_columns(fitting, fields):
        for standing_in, meaning in ((NULL_PART, "null"), (EMPTY_PART, "an empty string")):
            _refuse(values, pc.equal(values, standing_in), name, f"in a composite key it stands for {meaning}")
        if name in following:
            separator = f",{following[name]}:"
            _refuse(
                values,
                pc.match_substring(values, separator),
                name,
                f"in a composite key the value of another column begins at {separator!r}",
            )


def _string_columns(records: pa.Table, names: Iterable[str]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The columns of text among some columns."""
    for name in names:
        column = records.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if is_string(column.type):
            yield name, column


def _refuse(
    values: pa.ChunkedArray, is_refused: pa.ChunkedArray, name: str, reason: str, remedy: str = "change it"
) -> None:
    row = pc.index(is_refused, True).as_py()
    if row >= 0:
        raise InvalidKeyError(
            f"a value would not be told apart from another one: column={name} row={row} "
            f"value={values[row].as_py()!r}: {reason}",
            row=row,
            remedy=remedy,
        )
