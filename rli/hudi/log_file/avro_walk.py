"""Where values end that follow each other in Avro's encoding, told one after the other by their lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rli.hudi.log_file.avro_plan import AvroNode
from rli.hudi.log_file.form import damaged

_GOES_ON: Final = 0x80
_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


def ends_of(node: AvroNode, content: bytes, count: int) -> list[int]:
    """Where each of some values ends, the first of which begins with the content.

    Args:
        node: type of the values; each takes a byte or more.
        content: holds the values, and perhaps more.
        count: of the values.

    Raises:
        CorruptTableError: the content ends within a value, or a value has a type that its schema does not name.
    """
    ends, place = [], 0
    try:
        for _ in range(count):
            place = _end_of(node, content, place)
            ends.append(place)
    except IndexError as error:
        raise damaged("a list ends within a value") from error
    if place > len(content):
        raise damaged("a list ends within a value")
    return ends


def _end_of(node: AvroNode, content: bytes, place: int) -> int:
    if node.branch is not None:
        branch = content[place]
        place += 1
        if branch != 2 * node.branch:
            if node.null_branch is None or branch != 2 * node.null_branch:
                raise damaged("a value has a type that its schema does not name")
            return place
    return _ENDS[node.kind](node, content, place)


def _number_end(_node: AvroNode, content: bytes, place: int) -> int:
    while content[place] >= _GOES_ON:
        place += 1
    return place + 1


def _fixed_end(node: AvroNode, _content: bytes, place: int) -> int:
    return place + _SIZES.get(node.kind, node.size)


def _bytes_end(_node: AvroNode, content: bytes, place: int) -> int:
    length, place = _number(content, place)
    if length < 0:
        raise damaged("a string of an impossible length")
    return place + length


def _record_end(node: AvroNode, content: bytes, place: int) -> int:
    for child in node.children:
        place = _end_of(child, content, place)
    return place


def _list_end(node: AvroNode, content: bytes, place: int) -> int:
    (item,) = node.children
    while True:
        count, place = _number(content, place)
        if not count:
            return place
        if count < 0:
            # The bytes of the block follow.
            count, place = -count, _number_end(node, content, place)
        # Ends with the content, since an item takes a byte or more.
        for _ in range(count):
            place = _end_of(item, content, place)


def _number(content: bytes, place: int) -> tuple[int, int]:
    """The number at a place, and where it ends."""
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & ~_GOES_ON) << shift
        if byte < _GOES_ON:
            return value >> 1 ^ -(value & 1), place
        shift += 7


_ENDS: Final[dict[str, Callable[[AvroNode, bytes, int], int]]] = {
    **dict.fromkeys(("int", "long", "enum"), _number_end),
    **dict.fromkeys(("boolean", "float", "double", "fixed"), _fixed_end),
    **dict.fromkeys(("bytes", "string"), _bytes_end),
    "record": _record_end,
    "array": _list_end,
}
