"""Where values end that follow each other in Avro's encoding, told one after the other by their lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rli.hudi.log_file.avro_plan import AvroNode
from rli.hudi.log_file.form import damaged

_GOES_ON: Final = 0x80
_NUMBER_BITS: Final = 64
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


def number_end(content: bytes, place: int) -> int:
    """Where the number at a place ends; raises ``IndexError`` if the content ends within it."""
    while content[place] >= _GOES_ON:
        place += 1
    return place + 1


def number_at(content: bytes, place: int) -> tuple[int, int]:
    """The number at a place, and where it ends; raises as ``number_end``, and ``CorruptTableError`` if it has more than 64 bits."""
    number = 0
    for shift in range(0, _NUMBER_BITS, 7):
        byte = content[place]
        place += 1
        number |= (byte & ~_GOES_ON) << shift
        if byte < _GOES_ON:
            return (number >> 1) ^ -(number & 1), place
    raise damaged(f"a number of more than {_NUMBER_BITS} bits: place={place}")


def _number_end(_node: AvroNode, content: bytes, place: int) -> int:
    return number_end(content, place)


def _fixed_end(node: AvroNode, _content: bytes, place: int) -> int:
    return place + _SIZES.get(node.kind, node.size)


def _bytes_end(_node: AvroNode, content: bytes, place: int) -> int:
    length, place = number_at(content, place)
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
        count, place = number_at(content, place)
        if not count:
            return place
        if count < 0:
            # The bytes of the block follow.
            count, place = -count, number_end(content, place)
        # Ends with the content, since an item takes a byte or more.
        for _ in range(count):
            place = _end_of(item, content, place)


_ENDS: Final[dict[str, Callable[[AvroNode, bytes, int], int]]] = {
    **dict.fromkeys(("int", "long", "enum"), _number_end),
    **dict.fromkeys(("boolean", "float", "double", "fixed"), _fixed_end),
    **dict.fromkeys(("bytes", "string"), _bytes_end),
    "record": _record_end,
    "array": _list_end,
}
