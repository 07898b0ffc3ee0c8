"""Decoding of Avro by columns: each step reads one value of all records at once."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.log_file.avro_plan import AvroNode
from rli.hudi.log_file.avro_rows import Mask, Numbers, Rows
from rli.hudi.log_file.avro_walk import ends_of
from rli.hudi.log_file.form import damaged

_FEW_ROWS: Final = 200
"""Items of so few lists are sought one after the other: that takes no longer than a step over an item of each list."""

_DECIMAL_BYTES: Final = 16


def decoded(node: AvroNode, rows: Rows, mask: Mask = None) -> pa.Array:
    """The next value of each row, as a column.

    Args:
        node: type of the values.
        rows: stand behind the values afterwards.
        mask: rows that have a value; the others are null and stay where they are.

    Raises:
        CorruptTableError: the encodings are damaged.
    """
    if node.branch is not None:
        branches = rows.bytes(mask)
        is_value = branches == 2 * node.branch
        is_known = is_value if node.null_branch is None else is_value | (branches == 2 * node.null_branch)
        if not (is_known if mask is None else is_known | ~mask).all():
            raise damaged("a value has a type that its schema does not name")
        mask = is_value if mask is None else is_value & mask
        if mask.all():
            mask = None
    return _DECODERS[node.kind](node, rows, mask)


def _array(node: AvroNode, values: NDArray[Any], mask: Mask) -> pa.Array:
    return pa.Array.from_buffers(node.arrow, len(values), [_bits(mask), pa.py_buffer(np.ascontiguousarray(values))])


def _bits(mask: Mask) -> pa.Buffer | None:
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def _int(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    values = rows.numbers(mask)
    narrow = values.astype(np.int32)
    if (narrow != values).any():
        raise damaged("an int has more than 32 bits")
    return _array(node, narrow, mask)


def _long(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    return _array(node, rows.numbers(mask), mask)


def _float(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    return _array(node, rows.words(4, mask).astype(np.uint32), mask)


def _double(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    return _array(node, rows.words(8, mask), mask)


def _boolean(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    values = rows.bytes(mask)
    if (values > 1 if mask is None else (values > 1) & mask).any():
        raise damaged("a boolean is neither 0 nor 1")
    bits = pa.py_buffer(np.packbits(values == 1, bitorder="little"))
    return pa.Array.from_buffers(node.arrow, len(values), [_bits(mask), bits])


def _bytes(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    return _of_bytes(node, rows, rows.spans(mask), mask)


def _fixed(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    lengths = np.full(len(rows.places), node.size) if mask is None else np.where(mask, node.size, 0)
    rows.move(lengths, None)
    return _of_bytes(node, rows, lengths, mask)


def _of_bytes(node: AvroNode, rows: Rows, lengths: Numbers, mask: Mask) -> pa.Array:
    """Values of the bytes in front of the places."""
    convert = _decimals if pa.types.is_decimal(node.arrow) else _strings
    return convert(node, rows, lengths, mask)


def _strings(node: AvroNode, rows: Rows, lengths: Numbers, mask: Mask) -> pa.Array:
    # Values and what stands between them are elements of one array over the content: records are in order.
    count = len(lengths)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2], bounds[1::2] = rows.places - lengths, rows.places
    parts = pa.BinaryArray.from_buffers(pa.binary(), max(0, 2 * count - 1), [None, pa.py_buffer(bounds), rows.buffer])
    wanted = pa.array(np.arange(0, 2 * count, 2), mask=None if mask is None else ~mask)
    try:
        return parts.take(wanted).cast(node.arrow)
    except pa.ArrowInvalid as error:
        raise damaged(f"a string is not UTF-8 ({error})") from error


def _decimals(node: AvroNode, rows: Rows, lengths: Numbers, mask: Mask) -> pa.Array:
    if lengths.max(initial=0) > _DECIMAL_BYTES:
        raise damaged("a decimal is too long")
    column = pa.Array.from_buffers(node.arrow, len(lengths), [_bits(mask), pa.py_buffer(rows.integers(lengths))])
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise damaged(f"a decimal has more digits than its type ({error})") from error
    return column


def _enum(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    numbers = rows.numbers(mask)
    if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= len(node.symbols):
        raise damaged("a symbol that its schema does not name")
    return pa.array(node.symbols, pa.string()).take(pa.array(numbers, mask=None if mask is None else ~mask))


def _record(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    children = [decoded(child, rows, mask) for child in node.children]
    return pa.Array.from_buffers(node.arrow, len(rows.places), [_bits(mask)], children=children)


def _list(node: AvroNode, rows: Rows, mask: Mask) -> pa.Array:
    items = _Items(node, rows)
    items.read(np.arange(len(rows.places)) if mask is None else np.flatnonzero(mask))
    offsets = np.zeros(len(rows.places) + 1, np.int64)
    np.cumsum(items.counts, out=offsets[1:])
    buffers = [_bits(mask), pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(node.arrow, len(rows.places), buffers, children=[items.in_order(offsets)])


class _Items:
    """Items of many lists: one of each list at a time."""

    def __init__(self, node: AvroNode, rows: Rows) -> None:
        self._node = node
        (self._item,) = node.children
        self._rows = rows
        self._left = np.zeros(len(rows.places), np.int64)
        self.counts = np.zeros(len(rows.places), np.int64)
        self._found: list[pa.Array] = []
        self._owners: list[NDArray[np.intp]] = []
        self._ordinals: list[Numbers] = []

    def read(self, active: NDArray[np.intp]) -> None:
        while len(active):
            self._begin_blocks(active[self._left[active] == 0])
            active = active[self._left[active] > 0]
            if len(active) <= _FEW_ROWS:
                self._read_rest(active)
                return
            rows = self._rows.chosen(active)
            self._add(decoded(self._item, rows), active, self.counts[active])
            self._rows.places[active] = rows.places
            self.counts[active] += 1
            self._left[active] -= 1

    def in_order(self, offsets: Numbers) -> pa.Array:
        """The items list by list."""
        if not self._found:
            return pa.array([], self._item.arrow)
        places = np.concatenate([offsets[rows] + at for rows, at in zip(self._owners, self._ordinals, strict=True)])
        order = np.empty(len(places), np.int64)
        order[places] = np.arange(len(places))
        return pa.concat_arrays(self._found).take(pa.array(order))

    def _begin_blocks(self, starting: NDArray[np.intp]) -> None:
        rows = self._rows.chosen(starting)
        counts = rows.numbers(None)
        # A negative number has the bytes of the block behind it.
        rows.numbers(counts < 0)
        counts = np.abs(counts)
        # An item takes a byte or more.
        if ((counts < 0) | (counts > rows.ends - rows.places)).any():
            raise damaged("a list has more items than its record has bytes")
        self._rows.places[starting] = rows.places
        self._left[starting] = counts

    def _read_rest(self, active: NDArray[np.intp]) -> None:
        """The items that are left, whose places are sought row by row."""
        while len(active):
            counts, places = self._left[active], [self._places_of_items(row) for row in active]
            rows = copy(self._rows)
            rows.places = np.concatenate([each[:-1] for each in places])
            rows.ends = np.concatenate([each[1:] for each in places])
            owners = np.repeat(active, counts)
            ordinals = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts) + self.counts[owners]
            self._add(decoded(self._item, rows), owners, ordinals)
            self._rows.places[active] = [each[-1] for each in places]
            self.counts[active] += counts
            self._left[active] = 0
            self._begin_blocks(active)
            active = active[self._left[active] > 0]

    def _places_of_items(self, row: np.intp) -> Numbers:
        """Where the items of a row's block begin, and where the last one ends."""
        place, end = self._rows.places[row], self._rows.ends[row]
        ends = ends_of(self._item, self._rows.buffer[place:end].to_pybytes(), int(self._left[row]))
        return place + np.array([0, *ends])

    def _add(self, found: pa.Array, owners: NDArray[np.intp], ordinals: Numbers) -> None:
        self._found.append(found)
        self._owners.append(owners)
        self._ordinals.append(ordinals)


_DECODERS: Final[dict[str, Callable[[AvroNode, Rows, Mask], pa.Array]]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _bytes,
    "fixed": _fixed,
    "enum": _enum,
    "record": _record,
    "array": _list,
}
