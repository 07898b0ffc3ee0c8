"""Reading of blocks with the keys of deleted records; ``delete_block`` has their form, and writes them.

Nothing says where a delete ends. So a walk over the lengths finds the bounds of all of them, and then their values are
decoded by columns, as those of records are.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final

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
        starts, ends, wrappers = _bounds(content)
    except IndexError as error:
        raise damaged("a list of deletes ends within one") from error
    changes = np.flatnonzero(np.diff(wrappers)) + 1
    for first, last in zip([0, *changes], [*changes, len(starts)], strict=True):
        for start in range(first, last, _BATCH_ROWS):
            chosen = slice(start, min(start + _BATCH_ROWS, last))
            yield _batch(rows_within(content, starts[chosen], ends[chosen]), int(wrappers[first]))


def behind_list(block: LogBlock) -> bytes:
    """The bytes that follow the list of a block's deletes; readers of all engines pass over them."""
    content = block.content()
    _, size = TWO_INTS.unpack_from(content)
    return content[TWO_INTS.size + size :]


def _bounds(content: bytes) -> tuple[Numbers, Numbers, NDArray[np.int8]]:
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
    starts, ends, wrappers = array("q"), array("q"), array("b")
    # Hudi 1 writes an empty list as one byte, some releases as none.
    while size:
        count, place = number_at(content, place)
        if count < 0:
            # The bytes of the deletes follow, for readers that pass over them.
            _, place = number_at(content, place)
        if not count:
            break
        for _ in range(abs(count)):
            starts.append(place)
            place = _behind_string(content, _behind_string(content, place))
            wrappers.append(content[place] >> 1)
            place = _behind_ordering(content, place)
            ends.append(place)
    if place != TWO_INTS.size + size or place > len(content):
        raise damaged(f"a list of deletes has another length than it says: bytes={size}")
    return np.array(starts, np.int64), np.array(ends, np.int64), np.array(wrappers, np.int8)


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


def _batch(rows: Rows, wrapper: int) -> pa.RecordBatch:
    keys, paths = decoded(_STRING, rows), decoded(_STRING, rows)
    rows.bytes(None)
    ordering = pa.nulls(len(keys)) if not wrapper else decoded(_ORDERINGS[wrapper], rows)
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
