"""The table's schema as Hudi keeps it in commit metadata: Avro, named as Hudi's Spark writer names things.

The record is ``<table>_record`` in the namespace ``hoodie.<table>``. A struct is a record named after its column,
in a namespace of the names above it; a decimal is a ``fixed`` of the fewest bytes that hold its digits. Nullable
means a union with null that defaults to null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from rli.errors import CorruptTableError, SchemaError
from rli.hudi.column_names import below, require_name, sanitised
from rli.json_text import parse_json

_MOST_LEVELS: Final = 64
_MOST_FIELDS: Final = 100_000

_MOST_SCHEMAS: Final = 16
"""Kept, of the texts that were read last: each look-up of a key asks for the schema of its table."""

_PRIMITIVES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
}
_ARROW_PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
_ARROW_LOGICAL: Final[dict[str, pa.DataType]] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def to_avro(schema: pa.Schema, table_name: str) -> str:
    """The Avro schema of a table's columns, as JSON on one line.

    Args:
        schema: the columns, without meta columns: booleans, signed integers, float32 and float64, text, bytes,
            decimals of up to 38 digits, dates in days, timestamps of microseconds or coarser, and lists, structs
            and maps with text keys of these. Integers of 8 and 16 bits become ``int``; timestamps become
            microseconds, local ones if they have no time zone.
        table_name: characters that Avro does not allow in a name become ``__``, as in Hudi.

    Raises:
        SchemaError: a column has a name that Avro does not allow, or another type; names the column.
    """
    name = sanitised(table_name)
    return json.dumps(_record(f"{name}_record", f"hoodie.{name}", schema, ""), separators=(",", ":"))


def from_avro(text: str) -> pa.Schema:
    """The columns of a table from the Avro schema in its commit metadata.

    Raises:
        CorruptTableError: the text is not an Avro schema of a record.
        SchemaError: a column has a type that Arrow cannot hold; names the column.
    """
    try:
        return _schema_in(text)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTableError(
            f"the table's schema in the commit metadata is not an Avro schema ({type(error).__name__}: {error}): "
            f"schema={str(text)[:200]!r}",
            remedy="restore the newest commit from a backup, or roll it back",
        ) from error


@lru_cache(maxsize=_MOST_SCHEMAS)
def _schema_in(text: str) -> pa.Schema:
    return pa.schema(_FromAvro().columns(parse_json(text)))


def _record(name: str, namespace: str, fields: Iterable[pa.Field], path: str) -> dict[str, Any]:
    inner = f"{namespace}.{name}"
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_field(field, inner, below(path, field.name)) for field in fields],
    }


def _field(field: pa.Field, namespace: str, path: str) -> dict[str, Any]:
    require_name(field.name, path)
    kind = _nullable(field.nullable, _type(field.type, field.name, namespace, path))
    return {"name": field.name, "type": kind, **({"default": None} if field.nullable else {})}


def _nullable(nullable: bool, kind: object) -> object:  # noqa: FBT001  (a property of the field)
    return ["null", kind] if nullable else kind


def _type(kind: pa.DataType, name: str, namespace: str, path: str) -> object:
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    for matches, convert in _CONVERSIONS:
        if matches(kind):
            return convert(kind, name, namespace, path)
    raise _unsupported(path, kind)


def _unsupported(path: str, kind: object) -> SchemaError:
    return SchemaError(
        f"a column has a type that the table's schema cannot hold: column={path!r} type={kind}",
        remedy=(
            "cast it to a signed integer, a float, a string, bytes, a decimal of up to 38 digits, a date, a timestamp "
            "in microseconds, a list, a struct or a map with string keys"
        ),
    )


def _timestamp(kind: pa.DataType, _name: str, _namespace: str, path: str) -> object:
    if kind.unit == "ns":
        raise _unsupported(path, kind)
    return {"type": "long", "logicalType": "local-timestamp-micros" if kind.tz is None else "timestamp-micros"}


def _decimal(kind: pa.DataType, name: str, namespace: str, path: str) -> object:
    if not 0 <= kind.scale <= kind.precision:
        raise _unsupported(path, kind)
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": f"{namespace}.{name}",
        "size": decimal_width(kind.precision),
        "logicalType": "decimal",
        "precision": kind.precision,
        "scale": kind.scale,
    }


def decimal_width(precision: int) -> int:
    """Fewest bytes of a two's-complement number that hold every number of ``precision`` decimal digits."""
    greatest: int = 10**precision - 1
    return greatest.bit_length() // 8 + 1


def _list(kind: pa.DataType, name: str, namespace: str, path: str) -> object:
    items = _type(kind.value_type, name, namespace, below(path, "element"))
    return {"type": "array", "items": _nullable(kind.value_field.nullable, items)}


def _map(kind: pa.DataType, name: str, namespace: str, path: str) -> object:
    if kind.key_type not in {pa.string(), pa.large_string()}:
        raise _unsupported(path, kind)
    values = _type(kind.item_type, name, namespace, below(path, "value"))
    return {"type": "map", "values": _nullable(kind.item_field.nullable, values)}


_Convert = Callable[[pa.DataType, str, str, str], object]

_CONVERSIONS: Final[tuple[tuple[Callable[[pa.DataType], bool], _Convert], ...]] = (
    (pa.types.is_fixed_size_binary, lambda *_: "bytes"),
    (pa.types.is_date32, lambda *_: {"type": "int", "logicalType": "date"}),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_decimal128, _decimal),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, lambda kind, name, namespace, path: _record(name, namespace, kind, path)),
)


class _FromAvro:
    """Converts one Avro schema; remembers its named types, which may be repeated by name alone."""

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType] = {}
        self._sizes: dict[str, int] = {}
        self._fields_seen = 0

    def columns(self, table: Mapping[str, Any]) -> list[pa.Field]:
        """The fields of a table's record."""
        if table["type"] != "record":
            raise ValueError(f"type={table['type']}")
        return self._fields(table, "")

    def _fields(self, record: Mapping[str, Any], path: str) -> list[pa.Field]:
        namespace = _full_name(record, "")
        return [self._field(field["name"], field["type"], namespace, path) for field in record["fields"]]

    def _field(self, name: str, kind: Any, namespace: str, path: str) -> pa.Field:
        full_path = below(path, name)
        self._count(1)
        if full_path.count(".") >= _MOST_LEVELS:
            raise ValueError(f"columns nest deeper than {_MOST_LEVELS} levels")
        branches = kind if isinstance(kind, list) else [kind]
        others = [branch for branch in branches if branch != "null"]
        if len(others) != 1:
            raise _unsupported(full_path, kind)
        return pa.field(name, self._type(others[0], namespace, full_path), nullable=len(others) < len(branches))

    def _type(self, kind: Any, namespace: str, path: str) -> pa.DataType:
        if isinstance(kind, str):
            return self._by_name(kind, namespace)
        before = self._fields_seen
        converted = self._complex(kind, namespace, path)
        if "name" in kind:
            full_name = _full_name(kind, namespace)
            self._named[full_name], self._sizes[full_name] = converted, self._fields_seen - before
        return converted

    def _by_name(self, name: str, namespace: str) -> pa.DataType:
        if name in _ARROW_PRIMITIVES:
            return _ARROW_PRIMITIVES[name]
        full_name = name if "." in name else f"{namespace.rpartition('.')[0]}.{name}"
        self._count(self._sizes[full_name])
        return self._named[full_name]

    def _count(self, fields: int) -> None:
        # A type may be repeated by its name alone, so a short schema can stand for any number of columns.
        self._fields_seen += fields
        if self._fields_seen > _MOST_FIELDS:
            raise ValueError(f"the schema has more than {_MOST_FIELDS} fields, nested ones included")

    def _complex(self, kind: Mapping[str, Any], namespace: str, path: str) -> pa.DataType:
        logical = kind.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(kind["precision"], kind.get("scale", 0))
        if logical in _ARROW_LOGICAL:
            return _ARROW_LOGICAL[logical]
        outer = kind["type"]
        if outer == "record":
            full = {**kind, "namespace": kind.get("namespace", namespace.rpartition(".")[0])}
            return pa.struct(self._fields(full, path))
        if outer == "array":
            return pa.list_(self._field("element", kind["items"], namespace, path))
        if outer == "map":
            return pa.map_(pa.string(), self._field("value", kind["values"], namespace, path))
        return self._type(outer, namespace, path) if outer not in _ARROW_PRIMITIVES else _ARROW_PRIMITIVES[outer]


def _full_name(kind: Mapping[str, Any], namespace: str) -> str:
    name: str = kind["name"]
    return name if "." in name else f"{kind.get('namespace', namespace.rpartition('.')[0])}.{name}"
