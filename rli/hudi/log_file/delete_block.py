"""Blocks with the keys of deleted records.

The content is int32 version 3, int32 bytes of the list, and the list in Avro: ``HoodieDeleteRecordList``, whose elements have
a record key, a partition path, and an ordering value in a record of its type. No deletes are a list without elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from rli.errors import InvalidInputError
from rli.hudi.log_file import avro_values
from rli.hudi.log_file.avro_values import Parts
from rli.hudi.log_file.base_rows import BaseRows
from rli.hudi.log_file.delete_records import ORDERING, PARTITION_PATH, RECORD_KEY
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import CONTENT_VERSION, TWO_INTS, BlockKind, Header

_ALWAYS: Final = 0
"""Ordering of a delete that wins over all records before: Hudi writes an ``int`` whatever the type of the table's column."""

_END: Final = b"\0"
_NOT_NULL: Final = b"\x02"


def deletes(record_keys: pa.Array, partition_path: str, ordering: pa.Array | None = None) -> pa.RecordBatch:
    """Deleted records of one partition, as columns of a delete block.

    >>> deletes(pa.array(["k1"]), "eu").to_pylist()
    [{'record_key': 'k1', 'partition_path': 'eu', 'ordering': 0}]

    Args:
        record_keys: strings, or their bytes.
        partition_path: of the records; in the metadata table the name of its partition.
        ordering: value for each record; None if the deletes win over all records before.
    """
    count = len(record_keys)
    if ordering is None:
        ordering = pa.repeat(pa.scalar(_ALWAYS, pa.int32()), count)
    paths = pa.repeat(pa.scalar(partition_path), count)
    columns = [record_keys.cast(pa.string()), paths, ordering]
    return pa.record_batch(columns, names=[RECORD_KEY, PARTITION_PATH, ORDERING])


# Not from lists: that would import pandas with this module.
NO_DELETES: Final = pa.RecordBatch.from_arrays(
    [pa.nulls(0, pa.string()), pa.nulls(0, pa.string()), pa.nulls(0, pa.int32())],
    [RECORD_KEY, PARTITION_PATH, ORDERING],
)
"""Of the first block of a new file group in the metadata table."""


def delete_block(
    instant: str, deleted: pa.RecordBatch, schema: str | None = None, base_rows: BaseRows | None = None
) -> bytes:
    """A block of deleted records.

    >>> len(delete_block("00000000000000000", NO_DELETES))
    80

    Args:
        instant: of the commit.
        deleted: columns ``record_key``, ``partition_path`` and ``ordering``, without nulls. Ordering values of one block
            have one type, as hudi-rs demands: boolean, int32, int64, float32, float64, binary or string.
        schema: Avro schema of the table's records; None for a block without deletes.
        base_rows: the positions of the deleted records in the base file; None if they are not known.

    Raises:
        InvalidInputError: a value is null, or the ordering has another type.
    """
    headers = {Header.INSTANT: instant, **({} if schema is None else {Header.SCHEMA: schema})}
    body, tail = _list(deleted), b"" if base_rows is None else base_rows.to_tail()
    return encode_block(BlockKind.DELETE, headers, TWO_INTS.pack(CONTENT_VERSION, len(body)) + body + tail)


def _list(deleted: pa.RecordBatch) -> bytes:
    if not deleted.num_rows:
        return _END
    for name in deleted.schema.names:
        if deleted[name].null_count:
            raise InvalidInputError(f"a deleted record has a null: column={name}", remedy="leave the record out")
    ordering = deleted[ORDERING]
    form = _WRAPPED.get(ordering.type)
    if form is None:
        raise InvalidInputError(
            f"the ordering values of deletes have a type that log files do not hold: type={ordering.type}",
            remedy=f"cast them to one of {', '.join(map(str, _WRAPPED))}",
        )
    branch, encode = form
    not_null = pa.scalar(_NOT_NULL)
    parts = [
        *(not_null, *avro_values.strings(deleted[RECORD_KEY])),
        *(not_null, *avro_values.strings(deleted[PARTITION_PATH])),
        *(pa.scalar(bytes([2 * branch])), *encode(ordering)),
    ]
    records = avro_values.joined(parts)
    count = avro_values.numbers(pa.array([deleted.num_rows]))[0].as_py()
    return b"".join([count, records.buffers()[2].to_pybytes(), _END])


_WRAPPED: Final[dict[pa.DataType, tuple[int, Callable[[pa.Array], Parts]]]] = {
    pa.bool_(): (1, lambda column: [avro_values.flags(column)]),
    pa.int32(): (2, lambda column: [avro_values.numbers(column)]),
    pa.int64(): (3, lambda column: [avro_values.numbers(column)]),
    pa.float32(): (4, lambda column: [avro_values.fixed(column)]),
    pa.float64(): (5, lambda column: [avro_values.fixed(column)]),
    pa.binary(): (6, avro_values.strings),
    pa.string(): (7, avro_values.strings),
}
"""Branch of the union of ordering values, and their encoding, by type."""
