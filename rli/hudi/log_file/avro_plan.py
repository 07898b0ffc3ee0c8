"""An Avro schema beside the Arrow types of its columns, resolved for encoding and decoding by columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Final

import fastavro
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
        rest: what fastavro decodes an array by, with pairs for maps; None for other kinds.
    """

    kind: str
    arrow: pa.DataType
    branch: int | None
    null_branch: int | None
    size: int
    symbols: tuple[str, ...]
    children: tuple[AvroNode, ...]
    rest: Any


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
        return columns, _Planner(count()).node(expanded, pa.struct(columns), None, None)
    except (*MALFORMED, CorruptTableError) as error:
        raise damaged(f"the schema of a block is no Avro schema ({type(error).__name__}: {error})") from error


class _Planner:
    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers

    def node(self, schema: Any, arrow: pa.DataType, branch: int | None, null_branch: int | None) -> AvroNode:
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, dict):
            return self.node(kind, arrow, branch, null_branch)
        children: tuple[AvroNode, ...] = ()
        rest = None
        if kind == "record":
            fields = zip(schema["fields"], arrow, strict=True)
            children = tuple(self.of_field(field["type"], column.type) for field, column in fields)
        elif kind in {"array", "map"}:
            items = _items(schema)
            item = pa.struct([arrow.key_field, arrow.item_field]) if kind == "map" else arrow.value_type
            children = (self.of_field(items, item),)
            rest = fastavro.parse_schema({"type": "array", "items": self._named(items)})
            kind = "array"
        details = {} if isinstance(schema, str) else schema
        size, symbols = int(details.get("size", 0)), tuple(details.get("symbols", ()))
        return AvroNode(kind, arrow, branch, null_branch, size, symbols, children, rest)

    def of_field(self, schema: Any, arrow: pa.DataType) -> AvroNode:
        if not isinstance(schema, list):
            return self.node(schema, arrow, None, None)
        null_branch = schema.index("null") if "null" in schema else None
        (branch,) = (number for number, kind in enumerate(schema) if kind != "null")
        return self.node(schema[branch], arrow, branch, null_branch)

    def _named(self, schema: Any) -> Any:
        """The type with pairs for maps, names that occur once, and logical types of decimals alone."""
        if isinstance(schema, list):
            return [self._named(branch) for branch in schema]
        if isinstance(schema, str):
            return schema
        kind = schema["type"]
        if kind in {"array", "map"}:
            return {"type": "array", "items": self._named(_items(schema))}
        if kind == "record":
            fields = [{"name": field["name"], "type": self._named(field["type"])} for field in schema["fields"]]
            return {"type": "record", "name": self._name(), "fields": fields}
        return self._single(schema) if isinstance(kind, str) else self._named(kind)

    def _single(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        kept = ["type", "size", "symbols"]
        if schema.get("logicalType") == "decimal":
            kept += ["logicalType", "precision", "scale"]
        named = {"name": self._name()} if "name" in schema else {}
        return {**named, **{name: schema[name] for name in kept if name in schema}}

    def _name(self) -> str:
        return f"type_{next(self._numbers)}"


def _items(schema: Mapping[str, Any]) -> Any:
    """Type of the items of an array, or of the pairs of a map."""
    if schema["type"] == "array":
        return schema["items"]
    fields = [{"name": "key", "type": "string"}, {"name": "value", "type": schema["values"]}]
    return {"type": "record", "name": "pair", "fields": fields}
