"""An Avro schema beside the Arrow types of its columns, resolved for encoding and decoding by columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from fastavro.schema import expand_schema

from rli.errors import CorruptTableError
from rli.hudi.avro_schema import from_avro
from rli.hudi.log_file.form import damaged
from rli.hudi.timeline.avro_files import MALFORMED, parsed_schema
from rli.json_text import parse_json

_MOST_SCHEMAS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class AvroNode:
    """A type in the schema.

    Attributes:
        kind: Avro's name, such as ``long``; that of a map is ``array``, since it is encoded as an array of pairs.
        arrow: the Arrow type.
        branch: number of the type in its union; None outside of a union.
        null_branch: number of null in the union; None if it has none.
        size: bytes of a ``fixed``.
        symbols: of an ``enum``.
        children: of a ``record`` in the order of its fields; the items of an ``array``.
    """

    kind: str
    arrow: pa.DataType
    branch: int | None
    null_branch: int | None
    size: int
    symbols: tuple[str, ...]
    children: tuple[AvroNode, ...]


@lru_cache(maxsize=_MOST_SCHEMAS)
def plan_of(schema: str) -> tuple[pa.Schema, AvroNode]:
    """The columns of a block and the record of their rows.

    Args:
        schema: Avro schema of a record, from a block's header.

    Raises:
        CorruptTableError: it is none.
        SchemaError: a column has a type that Arrow cannot hold.
    """
    try:
        columns = from_avro(schema)
        # Refuses values that take no bytes, of which a few bytes can hold any number.
        parsed_schema(schema)
        expanded = expand_schema(parse_json(schema))
        return columns, _node(expanded, pa.struct(columns), None, None)
    except (*MALFORMED, CorruptTableError) as error:
        raise damaged(f"the schema of a block is no Avro schema ({type(error).__name__}: {error})") from error


def _node(schema: Any, arrow: pa.DataType, branch: int | None, null_branch: int | None) -> AvroNode:
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict):
        return _node(kind, arrow, branch, null_branch)
    children: tuple[AvroNode, ...] = ()
    if kind == "record":
        fields = zip(schema["fields"], arrow, strict=True)
        children = tuple(_of_field(field["type"], column.type) for field, column in fields)
    elif kind in {"array", "map"}:
        item = pa.struct([arrow.key_field, arrow.item_field]) if kind == "map" else arrow.value_type
        children = (_of_field(_items(schema), item),)
        kind = "array"
    details = {} if isinstance(schema, str) else schema
    size, symbols = int(details.get("size", 0)), tuple(details.get("symbols", ()))
    return AvroNode(kind, arrow, branch, null_branch, size, symbols, children)


def _of_field(schema: Any, arrow: pa.DataType) -> AvroNode:
    if not isinstance(schema, list):
        return _node(schema, arrow, None, None)
    null_branch = schema.index("null") if "null" in schema else None
    (branch,) = (number for number, kind in enumerate(schema) if kind != "null")
    return _node(schema[branch], arrow, branch, null_branch)


def _items(schema: Mapping[str, Any]) -> Any:
    """Type of the items of an array, or of the pairs of a map."""
    if schema["type"] == "array":
        return schema["items"]
    fields = [{"name": "key", "type": "string"}, {"name": "value", "type": schema["values"]}]
    return {"type": "record", "name": "pair", "fields": fields}
