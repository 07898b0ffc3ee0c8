"""Reading of blocks with the keys of deleted records; ``delete_block`` has their form, and writes them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from rli.errors import UnsupportedTableError
from rli.hudi.log_file.avro_cursor import AvroCursor
from rli.hudi.log_file.form import CONTENT_VERSION, TWO_INTS, damaged
from rli.hudi.log_file.reader import LogBlock

RECORD_KEY: Final = "record_key"
PARTITION_PATH: Final = "partition_path"
ORDERING: Final = "ordering"

_BATCH_ROWS: Final = 65_536

_Value: TypeAlias = bool | int | float | bytes | Decimal | None


class _Deleted(NamedTuple):
    key: bytes
    partition_path: bytes
    wrapper: int
    ordering: _Value


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
    rows: list[_Deleted] = []
    for row in _rows(block.content()):
        if rows and (row.wrapper != rows[0].wrapper or len(rows) == _BATCH_ROWS):
            yield _batch(rows)
            rows = []
        rows.append(row)
    if rows:
        yield _batch(rows)


def _rows(content: bytes) -> Iterator[_Deleted]:
    if len(content) < TWO_INTS.size:
        raise damaged(f"a block of deletes is too short: bytes={len(content)}")
    version, size = TWO_INTS.unpack_from(content)
    if version != CONTENT_VERSION:
        raise UnsupportedTableError(
            f"a log file has deletes in a form that rli does not read: version={version}",
            remedy="let a newer release of Hudi compact the table",
        )
    cursor = AvroCursor(content, TWO_INTS.size)
    # Hudi 1 writes an empty list as one byte, some releases as none.
    while size and (count := cursor.block_count()):
        for _ in range(count):
            yield _row(cursor)
    if cursor.place != TWO_INTS.size + size:
        raise damaged(f"a list of deletes has another length than it says: bytes={size}")


def _row(cursor: AvroCursor) -> _Deleted:
    if cursor.number() != 1:
        raise damaged("a delete has no record key")
    key = cursor.text()
    if cursor.number() != 1:
        raise damaged("a delete has no partition path")
    path = cursor.text()
    wrapper = cursor.number()
    if wrapper == _ARRAY:
        raise UnsupportedTableError(
            "a log file has deletes that are ordered by several columns, rli does not read that",
            remedy="let Hudi compact the table",
        )
    if not 0 <= wrapper < len(_WRAPPERS):
        raise damaged(f"the ordering value of a delete has an unknown type: branch={wrapper}")
    return _Deleted(key, path, wrapper, _value(cursor, wrapper))


def _value(cursor: AvroCursor, wrapper: int) -> _Value:
    kind = _WRAPPERS[wrapper]
    if pa.types.is_null(kind):
        return None
    if pa.types.is_boolean(kind):
        return cursor.flag()
    if pa.types.is_floating(kind):
        return cursor.floating(kind.bit_width // 8)
    if pa.types.is_decimal(kind):
        return Decimal(int.from_bytes(cursor.text(), "big", signed=True)).scaleb(-kind.scale)
    if kind in (pa.string(), pa.binary()):
        return cursor.text()
    return cursor.number()


def _batch(rows: list[_Deleted]) -> pa.RecordBatch:
    keys, paths, wrappers, orderings = zip(*rows, strict=True)
    kind = _WRAPPERS[wrappers[0]]
    try:
        columns = [
            pa.array(keys, pa.binary()).cast(pa.string()),
            pa.array(paths, pa.binary()).cast(pa.string()),
            pa.array(orderings, pa.binary()).cast(kind) if kind == pa.string() else pa.array(orderings, kind),
        ]
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise damaged(f"a delete has a value that its type cannot have ({error})") from error
    return pa.record_batch(columns, names=[RECORD_KEY, PARTITION_PATH, ORDERING])


_WRAPPERS: Final[tuple[pa.DataType, ...]] = (
    pa.null(),
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.binary(),
    pa.string(),
    pa.date32(),
    pa.decimal128(30, 15),
    pa.time64("us"),
    pa.timestamp("us"),
    pa.date32(),
)
"""Types of ordering values, by the branch of their union."""

_ARRAY: Final = len(_WRAPPERS)
