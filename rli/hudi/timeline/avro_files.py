"""Avro container files of one record, in which the timeline keeps plans and results.

What they hold may come from anywhere, so decoding is bounded: the schema nests no deeper than ``_MOST_LEVELS``, every
value takes at least one byte of the file, and a block inflates to at most ``_MOST_BYTES``. A few bytes can therefore
not stand for gigabytes. The format is that of the Avro specification 1.11, "Object Container Files".
"""

from __future__ import annotations

import io
import json
import secrets
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from rli.hudi.timeline.schema_parts import Schema
from rli.json_text import parse_json

MALFORMED: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    EOFError,
    StopIteration,
    SchemaParseException,
    UnknownType,
)
"""Reading a file that is not such a container, or holds something else, may raise these."""

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_HEADER: Final = {"type": "map", "values": "bytes"}
_MOST_LEVELS: Final = 64
_MOST_SCHEMAS: Final = 64
_MOST_BYTES: Final = 128 << 20
_RAW_DEFLATE: Final = -15
_NULLS: Final = ("null", {"type": "null"})


def write_record(schema: Schema, record: dict[str, Any]) -> bytes:
    """A file that holds this record."""
    parsed, header = _prepared(_Same(schema))
    data = io.BytesIO()
    fastavro.schemaless_writer(data, parsed, record)
    sync = secrets.token_bytes(_SYNC_BYTES)
    content = io.BytesIO()
    for part in (1, len(data.getvalue())):
        fastavro.schemaless_writer(content, "long", part)
    return b"".join((_MAGIC, header, sync, content.getvalue(), data.getvalue(), sync))


class _Same:
    """A schema that is equal to itself alone."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(_MOST_SCHEMAS)
def _prepared(same: _Same) -> tuple[Any, bytes]:
    """A schema to write with, and the header of its files: to make both takes ten times as long as to write a record."""
    header = io.BytesIO()
    text = json.dumps(same.schema, separators=(",", ":")).encode()
    fastavro.schemaless_writer(header, _HEADER, {"avro.codec": b"null", "avro.schema": text})
    return fastavro.parse_schema(same.schema), header.getvalue()


def read_record(content: bytes) -> Any:
    """The record; raises one of ``MALFORMED`` if the content does not hold exactly one, or exceeds a bound."""
    stream = io.BytesIO(content)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("not an Avro container file")
    header = fastavro.schemaless_reader(stream, _HEADER, None)
    if not isinstance(header, Mapping):
        raise TypeError("an Avro container file without a header")
    sync = stream.read(_SYNC_BYTES)
    count, size = _read_long(stream), _read_long(stream)
    block = stream.read(size) if size >= 0 else b""
    if count != 1 or stream.read() != sync:
        raise ValueError(f"not an Avro container file of one record: records in the first block={count}")
    data = _inflate(block, header.get("avro.codec", b"null").decode())
    return decode(data, parsed_schema(header["avro.schema"]))


def parsed_schema(text: bytes | str) -> Schema:
    """An Avro schema that is safe to decode with; raises one of ``MALFORMED`` if it is not."""
    schema = parse_json(text)
    try:
        _Depths().of(schema)
    except RecursionError as error:
        raise ValueError("the Avro schema nests too deeply") from error
    parsed = fastavro.parse_schema(schema)
    if not isinstance(parsed, dict):
        raise TypeError(f"not the Avro schema of a record: type={type(parsed).__name__}")
    return parsed


def decode(data: bytes, schema: Schema) -> Any:
    """The value that Avro's binary encoding holds, by a schema of ``parsed_schema``."""
    return fastavro.schemaless_reader(io.BytesIO(data), schema, None)


def _read_long(stream: io.BytesIO) -> int:
    value = shift = 0
    while shift < 64:
        (byte,) = stream.read(1) or _raise_end()
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    raise ValueError("an Avro number of more than 64 bits")


def _raise_end() -> bytes:
    raise EOFError("the Avro container file ends too early")


def _inflate(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise ValueError(f"the codec is not supported: codec={codec}")
    inflater = zlib.decompressobj(_RAW_DEFLATE)
    try:
        data = inflater.decompress(block, _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"a deflated block is damaged: {error}") from error
    if inflater.unconsumed_tail:
        raise ValueError(f"a block inflates to more than {_MOST_BYTES} bytes")
    return data


class _Depths:
    """How deep values of a schema nest; raises ``ValueError`` where that is unbounded, or where values take no byte."""

    def __init__(self) -> None:
        self._of_named: dict[str, int] = {}

    def of(self, schema: object) -> int:
        if isinstance(schema, list):
            return 1 + max((self.of(branch) for branch in schema if branch not in _NULLS), default=0)
        if isinstance(schema, dict):
            return self._of_complex(schema)
        if schema == "null":
            raise ValueError("values of the Avro schema take no byte: type=null outside a union")
        return self._of_named.get(str(schema), 0)

    def _of_complex(self, schema: Mapping[str, Any]) -> int:
        kind = schema["type"]
        if kind in {"record", "error"}:
            return self._of_record(schema)
        if kind == "fixed" and int(schema["size"]) < 1:
            raise ValueError("values of the Avro schema take no byte: fixed of size 0")
        if kind in {"array", "map"}:
            return self._bounded(1 + self.of(schema["items" if kind == "array" else "values"]))
        return self.of(kind)

    def _of_record(self, schema: Mapping[str, Any]) -> int:
        if not schema["fields"]:
            raise ValueError("values of the Avro schema take no byte: a record without fields")
        name = str(schema["name"])
        names = {name, name.rpartition(".")[2], f"{schema.get('namespace', '')}.{name}"}
        # A record within itself nests without end.
        self._of_named.update(dict.fromkeys(names, _MOST_LEVELS))
        depth = self._bounded(1 + max(self.of(field["type"]) for field in schema["fields"]))
        self._of_named.update(dict.fromkeys(names, depth))
        return depth

    def _bounded(self, depth: int) -> int:
        if depth > _MOST_LEVELS:
            raise ValueError(f"values of the Avro schema nest deeper than {_MOST_LEVELS} levels")
        return depth
