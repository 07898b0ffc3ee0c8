"""Cells of the record index, in batches: keys that share a location share the bytes of their value.

A value names a file group and an instant, so millions of cells have few distinct values. Each distinct one is encoded
or decoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.errors import CorruptTableError
from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.record_codec import decode_record, encode_record
from rli.hudi.metadata.records import RecordLocation

_MOST_REMEMBERED: Final = 65_536

LOCATED: Final = pa.schema(
    [
        pa.field("record_key", pa.string(), nullable=False),
        *(
            pa.field(name, pa.dictionary(pa.int32(), pa.string()), nullable=False)
            for name in ("partition_path", "file_id", "instant")
        ),
    ]
)
"""Record keys with their locations."""


def location_cells(
    keys: pa.Array, locations: Sequence[RecordLocation], chosen: NDArray[np.integer] | None = None
) -> pa.RecordBatch:
    """Cells that say where records are.

    Args:
        keys: record keys, string array of shape (n,); sorted by their UTF-8 where an HFile is written.
        locations: distinct locations.
        chosen: index into ``locations`` for each key, shape (n,); None if there is one location.

    Returns:
        Batch of ``CELLS``, n rows in the order of the keys.

    Raises:
        ValueError: the instant of a location is no time.

    Example:
        >>> location = RecordLocation("eu", "0b6e8a52-4a4f-4d6f-9b0e-0f9d7a3a6c11-0", "20240531120000123")
        >>> location_cells(pa.array(["k1", "k2"]), [location]).num_rows
        2
    """
    values = pa.array([encode_record(location) for location in locations], pa.binary())
    indices = np.zeros(len(keys), np.int64) if chosen is None else chosen
    return pa.record_batch([keys.cast(pa.binary()), values.take(pa.array(indices))], schema=CELLS)


def located_keys(cells: pa.RecordBatch) -> pa.RecordBatch:
    """The record keys and locations that cells hold.

    Args:
        cells: of ``CELLS``, without removed records.

    Returns:
        Batch of ``LOCATED``, in the order of the cells.

    Raises:
        CorruptTableError: a value is no entry of a record index, or a key is not UTF-8.
    """
    encoded = cells["value"].dictionary_encode()
    locations = [_location(value) for value in encoded.dictionary.to_pylist()]
    try:
        keys = cells["key"].cast(pa.string())
    except pa.ArrowInvalid as error:
        raise _corrupt(f"a key of the record index is not UTF-8 ({error})") from error
    columns = [
        _picked(encoded.indices, [location.partition_path for location in locations]),
        _picked(encoded.indices, [location.file_id for location in locations]),
        _picked(encoded.indices, [location.instant for location in locations]),
    ]
    return pa.record_batch([keys, *columns], schema=LOCATED)


@lru_cache(_MOST_REMEMBERED)
def _location(value: bytes) -> RecordLocation:
    """The location of a value; blocks of one file share most of their values."""
    record = decode_record(value)
    if not isinstance(record, RecordLocation):
        raise _corrupt("a cell of the record index holds another record")
    return record


def _picked(indices: pa.Array, names: Sequence[str]) -> pa.DictionaryArray:
    """For each cell the name of its location, each distinct name once."""
    distinct = pa.array(names, pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(distinct.indices.take(indices), distinct.dictionary)


def _corrupt(problem: str) -> CorruptTableError:
    return CorruptTableError(problem, remedy="drop the record index of the metadata table and let it be built anew")
