"""Reading of blocks with the keys of deleted records; ``delete_block`` has their form, and writes them.

Nothing says where a delete ends. So a walk over the lengths finds the bounds of all of them, and then their values are
decoded by columns, as those of records are. Most deletes of a block have the same lengths: these are compared by columns, too.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.errors import UnsupportedTableError
from rli.hudi.log_file.avro_decoding import decoded
from rli.hudi.log_file.avro_plan import AvroNode, plan_of
from rli.hudi.log_file.avro_rows import Numbers, Rows, rows_within
from rli.hudi.log_file.avro_walk import number_at, number_end
from rli.hudi.log_file.form import CONTENT_VERSION, TWO_INTS, damaged
from rli.hudi.log_file.reader import LogBlock

RECORD_KEY: Final = "record_key"
PARTITION_PATH: Final = "partition_path"
ORDERING: Final = "ordering"

_BATCH_ROWS: Final = 32_768
_WALKED: Final = 64
"""Deletes whose lengths are read one after the other, before the next ones are compared with the last of them by columns."""

_MOST_WALKED: Final = 4_096
"""Most deletes that are read one after the other: the number doubles each time the comparison finds few alike."""

_LAST_DIGIT: Final = 0x7F
_NOT_NULL: Final = 2
"""The branch of a key and of a path, as it is encoded."""


def deleted_records(block: LogBlock) -> Iterator[pa.RecordBatch]:
    """The deletes of a block, in its order.

    Args:
        block: of the kind ``DELETE``.

    Yields:
        Batches of ``record_key`` and ``partition_path``, strings, and ``ordering``, in the type in which it was written:
        ``int`` 0 for a delete that wins over all records before, null where there is none. Where the type changes within
        a block, a new batch begins.

    Raises:
        CorruptTableError: the content is damaged.
        UnsupportedTableError: it is in the form of Hudi before 0.14, or has ordering values of several columns.
    """
    content = block.content()
    try:
        starts, ends, branches = _bounds(content)
    except (IndexError, OverflowError) as error:
        raise damaged("a list of deletes ends within one") from error
    changes = np.flatnonzero(np.diff(branches)) + 1
    for first, last in zip([0, *changes], [*changes, len(starts)], strict=True):
        for start in range(first, last, _BATCH_ROWS):
            chosen = slice(start, min(start + _BATCH_ROWS, last))
            yield _batch(rows_within(content, starts[chosen], ends[chosen]), int(branches[first]))


def behind_list(block: LogBlock) -> bytes:
    """The bytes that follow the list of a block's deletes; readers of all engines pass over them."""
    content = block.content()
    _, size = TWO_INTS.unpack_from(content)
    return content[TWO_INTS.size + size :]


def _bounds(content: bytes) -> _Bounds:
    """Where deletes begin and end, and the branches of their ordering values."""
    if len(content) < TWO_INTS.size:
        raise damaged(f"a block of deletes is too short: bytes={len(content)}")
    version, size = TWO_INTS.unpack_from(content)
    if version != CONTENT_VERSION:
        raise UnsupportedTableError(
            f"a log file has deletes in a form that rli does not read: version={version}",
            remedy="let a newer release of Hudi compact the table",
        )
    place = TWO_INTS.size
    found = [_NONE]
    # Hudi 1 writes an empty list as one byte, some releases as none.
    while size:
        count, place = number_at(content, place)
        if count < 0:
            # The bytes of the deletes follow, for readers that pass over them.
            _, place = number_at(content, place)
        if not count:
            break
        for bounds in _walked(content, place, abs(count)):
            found.append(bounds)
            place = int(bounds.ends[-1])
    if place != TWO_INTS.size + size or place > len(content):
        raise damaged(f"a list of deletes has another length than it says: bytes={size}")
    return _Bounds(*map(np.concatenate, zip(*found, strict=True)))


class _Bounds(NamedTuple):
    """Where deletes begin and end, and the branches of their ordering values; each of shape (n,)."""

    starts: Numbers
    ends: Numbers
    branches: NDArray[np.int8]


_NONE: Final = _Bounds(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8))


def _walked(content: bytes, place: int, count: int) -> Iterator[_Bounds]:
    """The bounds of so many deletes, the first of which begins at a place: of one after the other, and of those with its lengths."""
    bytes_of_content, walked = np.frombuffer(content, np.uint8), _WALKED
    while count:
        starts, ends, branches = array("q"), array("q"), array("b")
        for _ in range(min(count, walked)):
            starts.append(place)
            branch = _behind_string(content, _behind_string(content, place))
            branches.append(content[branch] >> 1)
            place = _behind_ordering(content, branch)
            ends.append(place)
        yield _Bounds(np.array(starts, np.int64), np.array(ends, np.int64), np.array(branches, np.int8))
        count -= len(starts)
        if not count:
            return
        form = _Form.of(content, starts[-1])
        alike = form.alike(bytes_of_content[place:], count)
        # Where lengths differ, a comparison in vain takes longer than the walk.
        walked = _WALKED if alike > walked else min(2 * walked, _MOST_WALKED)
        if alike:
            begins = place + form.size * np.arange(alike)
            place += form.size * alike
            yield _Bounds(begins, begins + form.size, np.full(alike, branches[-1], np.int8))
            count -= alike


class _Form(NamedTuple):
    """The lengths of a delete's values.

    Attributes:
        size: bytes of the delete.
        marks: the bytes that tell lengths and branches: their places in the delete, and what they are, each of shape (n,).
        digits: the bytes of an ordering value that is a number of any length: their places, and whether another byte of the number
            follows each, both of shape (m,).
    """

    size: int
    marks: tuple[Numbers, NDArray[np.uint8]]
    digits: tuple[Numbers, NDArray[np.bool_]]

    @classmethod
    def of(cls, content: bytes, start: int) -> Self:
        """The form of the delete at a place; raises ``CorruptTableError`` if the content ends within it."""
        path = _behind_string(content, start)
        branch = _behind_string(content, path)
        end = _behind_ordering(content, branch)
        if end > len(content):
            raise damaged(f"a list of deletes ends within one: place={start}")
        marks = [*range(start, number_end(content, start + 1)), *range(path, number_end(content, path + 1)), branch]
        is_number = _BEHIND[content[branch]] is number_end
        if _BEHIND[content[branch]] is _behind_bytes:
            marks += range(branch + 1, number_end(content, branch + 1))
        digits = range(branch + 1, end) if is_number else range(0)
        own = np.frombuffer(content, np.uint8, end - start, start)
        of_marks, of_digits = np.array(marks, np.int64) - start, np.array(digits, np.int64) - start
        return cls(end - start, (of_marks, own[of_marks]), (of_digits, own[of_digits] > _LAST_DIGIT))

    def alike(self, content: NDArray[np.uint8], most: int) -> int:
        """How many deletes of this form the content begins with, up to ``most``."""
        found = 0
        most = min(most, len(content) // self.size)
        while found < most:
            # The window doubles, so that a run that ends early costs little.
            some = content[found * self.size : min(2 * found + _WALKED, most) * self.size].reshape(-1, self.size)
            (marks, expected), (digits, goes_on) = self.marks, self.digits
            is_alike = (some[:, marks] == expected).all(axis=1) & ((some[:, digits] > _LAST_DIGIT) == goes_on).all(
                axis=1
            )
            if not is_alike.all():
                return found + int(is_alike.argmin())
            found += len(some)
        return found


def _behind_string(content: bytes, place: int) -> int:
    """Place behind a key or a path."""
    if content[place] != _NOT_NULL:
        raise damaged(f"a delete has no record key or no partition path: place={place}")
    return _behind_bytes(content, place + 1)


def _behind_bytes(content: bytes, place: int) -> int:
    # Most lengths are one byte.
    byte = content[place]
    length, place = (byte >> 1, place + 1) if byte < 0x80 and not byte & 1 else number_at(content, place)
    if length < 0:
        raise damaged(f"a delete has a string of a negative length: place={place}")
    return place + length


def _behind_ordering(content: bytes, place: int) -> int:
    pass_over = _BEHIND.get(content[place])
    if pass_over is not None:
        return pass_over(content, place + 1)
    if content[place] == _ARRAY:
        raise UnsupportedTableError(
            "a log file has deletes that are ordered by several columns, rli does not read that",
            remedy="let Hudi compact the table",
        )
    raise damaged(f"the ordering value of a delete has an unknown type: place={place}")


def _batch(rows: Rows, branch: int) -> pa.RecordBatch:
    keys, paths = decoded(_STRING, rows), decoded(_STRING, rows)
    rows.bytes(None)
    ordering = pa.nulls(len(keys)) if not branch else decoded(_ORDERINGS[branch], rows)
    if (rows.places != rows.ends).any():
        raise damaged("a delete is longer than its values")
    return pa.record_batch([keys, paths, ordering], names=[RECORD_KEY, PARTITION_PATH, ORDERING])


def _node(kind: Any) -> AvroNode:
    schema = {"type": "record", "name": "wrapper", "fields": [{"name": "value", "type": kind}]}
    return plan_of(json.dumps(schema))[1].children[0]


def _logical(kind: str, logical: str, **details: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **details}


_STRING: Final = _node(["null", "string"])
_ORDERINGS: Final = {
    1: _node("boolean"),
    2: _node("int"),
    3: _node("long"),
    4: _node("float"),
    5: _node("double"),
    6: _node("bytes"),
    7: _node("string"),
    8: _node(_logical("int", "date")),
    9: _node(_logical("bytes", "decimal", precision=30, scale=15)),
    10: _node(_logical("long", "time-micros")),
    11: _node(_logical("long", "local-timestamp-micros")),
    12: _node(_logical("int", "date")),
}
"""Types of ordering values, by the branch of their union; null is the branch 0."""

_ARRAY: Final = 2 * 13
"""The branch of values of several columns, as it is encoded."""

_FIXED: Final = {"boolean": 1, "float": 4, "double": 8}


def _passer(node: AvroNode) -> Callable[[bytes, int], int]:
    if node.kind in _FIXED:
        size = _FIXED[node.kind]
        return lambda _, place: place + size
    return _behind_bytes if node.kind in {"bytes", "string"} else number_end


_BEHIND: Final[dict[int, Callable[[bytes, int], int]]] = {
    0: lambda _, place: place,
    **{2 * branch: _passer(node) for branch, node in _ORDERINGS.items()},
}
"""Places behind ordering values, by the branch as it is encoded."""
