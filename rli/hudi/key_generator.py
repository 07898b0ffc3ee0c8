"""Record keys and partition paths of records, formed as Hudi's key generators form them.

One record-key column gives its value as text; several give ``a:1,b:2``, with ``__null__`` and ``__empty__`` for null
and empty parts (ComplexKeyGenerator). A partition path is the partition columns' values, joined by ``/``, each with
``column=`` before it in hive style; null and empty values give ``__HIVE_DEFAULT_PARTITION__``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.arrow_arrays import one_array
from rli.codec.key_arrays import is_string
from rli.errors import InvalidKeyError, SchemaError

NULL_PART: Final = "__null__"
EMPTY_PART: Final = "__empty__"
DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_METADATA_FOLDER: Final = ".hoodie"
_MAX_SEGMENT_BYTES: Final = 255

# Not encoded, Hudi cannot read a folder whose name holds ":", takes "%41" for "A", and hudi-rs fails at control
# characters. Hudi takes a folder "a=b" for the value "b" of a column "a".
_MISREAD: Final = re.compile(r":|%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f]")

# The characters that Hive and Hudi escape in a partition value.
_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """Forms record keys and partition paths for one table, of values in the types of its columns.

    Records of a caller go through ``TableKeys``, which sees to their types and refuses values of which the text is
    ambiguous.

    Attributes:
        record_key_fields: one or more columns.
        partition_fields: zero or more columns.
        hive_style: whether folders are named ``column=value``.
        url_encode: whether special characters in partition values are percent-encoded.
    """

    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    hive_style: bool
    url_encode: bool

    def record_keys(self, records: pa.Table) -> pa.Array:
        """The record key of each record: string array, shape (n,).

        Raises:
            SchemaError: a key column is missing or has a type that is no key.
            InvalidKeyError: a record has no key: null or empty, or, of several columns, all null or empty.
        """
        columns = [_strings(records, name, "record-key") for name in self.record_key_fields]
        if len(columns) == 1:
            return _require_keys(columns[0], self.record_key_fields[0])
        unnamed = pc.and_(*(_is_blank(column) for column in columns[:2]))
        for column in columns[2:]:
            unnamed = pc.and_(unnamed, _is_blank(column))
        if pc.any(unnamed).as_py():
            row = pc.index(unnamed, True).as_py()
            raise InvalidKeyError(
                f"a record has no key, all its key columns are null or empty: columns={list(self.record_key_fields)} "
                f"row={row}",
                row=row,
                remedy="give each record a key",
            )
        parts = [
            pc.binary_join_element_wise(
                name, pc.if_else(pc.equal(filled := pc.fill_null(column, NULL_PART), ""), EMPTY_PART, filled), ":"
            )
            for name, column in zip(self.record_key_fields, columns, strict=True)
        ]
        return pc.binary_join_element_wise(*parts, ",")

    def partition_paths(self, records: pa.Table) -> pa.DictionaryArray:
        """The partition path of each record, dictionary-encoded, shape (n,); "" in a table without partitions.

        Raises:
            SchemaError: a partition column is missing or has a type that is no partition value.
            InvalidKeyError: a value cannot be the name of a folder.
        """
        if not self.partition_fields:
            indices = pa.array([0], pa.int32()).take(pa.repeat(pa.scalar(0), records.num_rows))
            return pa.DictionaryArray.from_arrays(indices, pa.array([""], pa.string()))
        segments = [self._segments(records, name) for name in self.partition_fields]
        if len(segments) == 1:
            return segments[0]
        joined = pc.binary_join_element_wise(*(segment.cast(pa.string()) for segment in segments), "/")
        return pc.dictionary_encode(joined)

    def _segments(self, records: pa.Table, name: str) -> pa.DictionaryArray:
        column = pc.fill_null(_strings(records, name, "partition"), "")
        encoded = pc.dictionary_encode(column)
        names = [self._segment(name, value) for value in encoded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(names, pa.string()))

    def _segment(self, name: str, value: str) -> str:
        folder = escaped(value) if self.url_encode else value
        path = folder or DEFAULT_PARTITION
        folder = f"{name}={path}" if self.hive_style else path
        misread = not self.url_encode and (_MISREAD.search(value) or ("=" in value and not self.hive_style))
        for part in folder.split("/"):
            if (
                misread
                or part in ("", ".", "..", _METADATA_FOLDER)
                or "\0" in part
                or len(part.encode()) > _MAX_SEGMENT_BYTES
            ):
                raise InvalidKeyError(
                    f"a partition value cannot name a folder: column={name} value={value!r}",
                    remedy="change the value, or create the table with url_encode_partitions=True",
                )
        return folder


def require_record_keys(record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> None:
    """Refuse record keys that no table holds; raises ``InvalidKeyError`` for an empty one."""
    array = record_keys if isinstance(record_keys, pa.Array | pa.ChunkedArray) else pa.array(record_keys, pa.string())
    _require_keys(array, "record key")


def _require_keys(keys: pa.Array, column: str) -> pa.Array:
    blank = _is_blank(keys)
    if pc.any(blank).as_py():
        row = pc.index(blank, True).as_py()
        kind = "null" if not keys[row].is_valid else "empty"
        raise InvalidKeyError(
            f"a record key is {kind}: column={column} row={row}", row=row, remedy="give each record a key"
        )
    return keys


def _is_blank(column: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(column, ""), True)


def _strings(records: pa.Table, name: str, role: str) -> pa.Array:
    """A key or partition column as one string array, its values as Java's ``String.valueOf`` writes them."""
    if name not in records.column_names:
        raise SchemaError(
            f"the {role} column is missing: column={name} found={records.column_names}", remedy="add it to the records"
        )
    column = records.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not is_key_type(kind):
        raise SchemaError(
            f"the {role} column has a type that is no key: column={name} type={kind}",
            remedy="use a string, a whole number, a boolean, a date or a decimal, or cast it to string",
        )
    text = column.cast(pa.string())
    return one_array(text) if isinstance(text, pa.ChunkedArray) else text


def is_key_type(kind: pa.DataType) -> bool:
    """Whether record keys and partition paths are formed of values of a type."""
    return (
        pa.types.is_null(kind)
        or is_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_decimal(kind)
    )


def escaped(value: str) -> str:
    """A partition value as the name of a folder: Hive's special characters are percent-encoded."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in value)
