"""A row of Apache Hudi's own HBase index, and nothing of ours in it.

========== ================== ==============================================================================
row        column             cell
========== ================== ==============================================================================
record key _s:commit_ts       instant since which the record is there; an update in place does not change it
           _s:file_name       file id
           _s:partition_path  partition path
========== ================== ==============================================================================

All are text in UTF-8, and the three cells of a version have one timestamp. A record that went has no row. Hudi writes
with the clock of the region server as timestamp; what we write, ``rli_hbase.hudi_log`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import record_keys as codec
from rli.codec.lengths import Positions
from rli.errors import CorruptIndexError, InvalidKeyError
from rli.store import EncodedKeys
from rli_hbase.thrift import BatchMutation, Mutation

FAMILY: Final = b"_s"
COLUMNS: Final = (b"_s:commit_ts", b"_s:file_name", b"_s:partition_path")
VERSIONS: Final = 2
"""Versions of a cell that a table has to keep: the one before a commit of Hudi counts until the commit completes."""

MAX_KEY_BYTES: Final = 32_767
"""HBase takes no longer row keys."""

_SHOWN: Final = 40


class Version(NamedTuple):
    """One version of a row.

    Attributes:
        instant: since when the record is there.
        file_id: its file group.
        partition_path: likewise.
        time: timestamp of the cells, in milliseconds.
    """

    instant: bytes
    file_id: bytes
    partition_path: bytes
    time: int


def versions(found: Iterator[Any]) -> dict[bytes, Version]:
    """The version in each row that a request gave; rows that Hudi's index did not write are left out."""
    complete = ((row.row, [row.columns.get(column) for column in COLUMNS]) for row in found)
    return {
        row: Version(cells[0].value, cells[1].value, cells[2].value, cells[0].timestamp)
        for row, cells in complete
        if None not in cells
    }


def writing(row: bytes, instant: bytes, file_id: bytes, partition_path: bytes) -> BatchMutation:
    """A put of a row."""
    values = (instant, file_id, partition_path)
    cells = [Mutation(column=column, value=value) for column, value in zip(COLUMNS, values, strict=True)]
    return BatchMutation(row=row, mutations=cells)


def removing(row: bytes) -> BatchMutation:
    """A delete of a row, up to the timestamp with which it is sent."""
    return BatchMutation(row=row, mutations=[Mutation(isDelete=True, column=FAMILY)])


def rows_of(keys: EncodedKeys) -> list[bytes]:
    """The row of each key.

    Raises:
        InvalidKeyError: HBase takes no such row.
    """
    record_keys = codec.decode(keys.keys)
    texts = record_keys.cast(pa.binary())
    lengths = pc.binary_length(texts)
    unfit = pc.or_(pc.equal(lengths, 0), pc.greater(lengths, MAX_KEY_BYTES))
    if pc.any(unfit).as_py():
        position = pc.index(unfit, True).as_py()
        raise InvalidKeyError(
            f"HBase does not take this record key as a row: key={record_keys[position].as_py()[:_SHOWN]!r} "
            f"bytes={lengths[position]} most={MAX_KEY_BYTES}",
            remedy="keep this index in another store or without schema=hudi",
        )
    rows: list[bytes] = texts.to_pylist()
    return rows


def keys_of(rows: Sequence[bytes]) -> list[tuple[Positions, EncodedKeys]]:
    """The keys of rows, all in shard 0, grouped by width, with their positions; raises ``CorruptIndexError``."""
    try:
        texts = pa.array(rows, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptIndexError(
            "a row of the table is not a UTF-8 string", remedy="remove rows foreign to Hudi's index"
        ) from error
    return [(positions, EncodedKeys(keys, np.zeros(len(keys), np.uint16))) for positions, keys in codec.encode(texts)]
