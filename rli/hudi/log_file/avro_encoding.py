"""Encoding of columns in Avro; ``avro_values`` has the encodings of single types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError
from rli.hudi.avro_schema import decimal_width
from rli.hudi.log_file import avro_values
from rli.hudi.log_file.avro_plan import AvroNode
from rli.hudi.log_file.avro_values import Parts

_END: Final = b"\0"


def encoded(node: AvroNode, column: pa.Array) -> Parts:
    """The parts of each value's encoding.

    Args:
        node: type of the values.
        column: of the node's Arrow type.

    Raises:
        InvalidInputError: a value is null, which the type does not allow, or the type is one that tables of rli have not.
    """
    if column.null_count and node.null_branch is None:
        raise InvalidInputError(
            f"a value is null, which the schema of the records does not allow: type={node.arrow}",
            remedy="fill the column, or let its schema allow null",
        )
    encode = _ENCODERS.get(node.kind)
    if encode is None:
        raise InvalidInputError(
            f"the schema of the records has a type that rli does not write: type={node.kind}",
            remedy="let Hudi write records of this table",
        )
    parts = encode(node, column)
    if node.branch is None:
        return parts
    branch = pa.scalar(bytes([2 * node.branch]))
    if not column.null_count or node.null_branch is None:
        return [branch, *parts]
    return [pc.if_else(column.is_valid(), branch, pa.scalar(bytes([2 * node.null_branch]))), *parts]


def _number(node: AvroNode, column: pa.Array) -> Parts:
    width = pa.int32() if node.kind == "int" else pa.int64()
    return [avro_values.numbers(column if column.type == width else column.view(width))]


def _floating(_node: AvroNode, column: pa.Array) -> Parts:
    return [avro_values.fixed(column)]


def _boolean(_node: AvroNode, column: pa.Array) -> Parts:
    return [avro_values.flags(column)]


def _bytes(node: AvroNode, column: pa.Array) -> Parts:
    if pa.types.is_decimal(node.arrow):
        return avro_values.strings(avro_values.decimals(column, decimal_width(node.arrow.precision)))
    return avro_values.strings(column)


def _fixed(node: AvroNode, column: pa.Array) -> Parts:
    if pa.types.is_decimal(node.arrow):
        return [avro_values.decimals(column, node.size)]
    return [column.cast(pa.binary())]


def _record(node: AvroNode, column: pa.Array) -> Parts:
    if not column.null_count:
        return _fields(node, column)
    # A null record has no fields, not even null ones.
    is_value = column.is_valid()
    whole = avro_values.joined(_fields(node, column.filter(is_value)))
    return [whole.take(pa.array(np.cumsum(is_value) - 1, mask=~np.asarray(is_value)))]


def _fields(node: AvroNode, column: pa.Array) -> Parts:
    pairs = zip(node.children, column.flatten(), strict=True)
    return [part for child, field in pairs for part in encoded(child, field)]


def _list(node: AvroNode, column: pa.Array) -> Parts:
    (item,) = node.children
    if pa.types.is_map(column.type):
        column = _pairs(column)
    counts = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    items = avro_values.joined(encoded(item, column.flatten()))
    # The items of a list follow each other: the list's bytes reach from its first item to its last.
    bounds = np.concatenate([[0], np.cumsum(counts.to_numpy())])
    starts = np.frombuffer(items.buffers()[1], np.int32)[: len(items) + 1]
    buffers = [None, pa.py_buffer(np.ascontiguousarray(starts[bounds])), items.buffers()[2]]
    together = pa.BinaryArray.from_buffers(pa.binary(), len(column), buffers)
    block = pc.if_else(pc.equal(counts, 0), pa.scalar(b""), avro_values.numbers(counts))
    end = pa.scalar(_END)
    if column.null_count:
        end = pc.if_else(column.is_valid(), end, pa.scalar(b""))
    return [block, together, end]


def _pairs(column: pa.MapArray) -> pa.ListArray:
    """The same maps as lists of pairs, which have the same layout."""
    fields = [column.type.key_field, column.type.item_field]
    pairs = pa.StructArray.from_arrays([column.keys, column.items], fields=fields)
    kind = pa.list_(pairs.type)
    return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], offset=column.offset, children=[pairs])


_ENCODERS: Final[dict[str, Callable[[AvroNode, pa.Array], Parts]]] = {
    "boolean": _boolean,
    "int": _number,
    "long": _number,
    "float": _floating,
    "double": _floating,
    "bytes": _bytes,
    "string": _bytes,
    "fixed": _fixed,
    "record": _record,
    "array": _list,
}
