"""Where the index places records that were read from base files: the prior locations that journals tell."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptIndexError
from rli.index.locators import Locator
from rli.locations import LOCATION_SCHEMA
from rli.model import FileGroupId

_SAMPLE: Final = 5


def placed_by_index(
    locator: Locator, group: FileGroupId, record_keys: pa.Array, file_ids: pa.Array, instants: pa.Array
) -> pa.Table:
    """The locations of records by the index, in the order of the records.

    Args:
        locator: as of the state of the files.
        group: names the records' partition in errors, and their new or present file group.
        record_keys: string array, shape (n,).
        file_ids: where the records are stored, shape (n,).
        instants: since when they are there as far as their files tell, shape (n,).

    Raises:
        ConflictError: another writer has changed a record since.
        CorruptIndexError: the index does not place the records where they are.
    """
    paths = pa.repeat(pa.scalar(group.partition_path, pa.string()), len(record_keys))
    found = locator.trace(pa.table([record_keys, paths, file_ids, instants], schema=LOCATION_SCHEMA))
    elsewhere = pc.fill_null(pc.not_equal(found.column("file_id"), file_ids), True)
    if pc.any(elsewhere).as_py():
        wrong = record_keys.filter(elsewhere.combine_chunks())
        raise CorruptIndexError(
            f"the index does not place records where they are: partition={group.partition_path} count={len(wrong)} "
            f"keys={wrong.slice(0, _SAMPLE).to_pylist()}",
            remedy="verify the index, then repair or bootstrap it",
        )
    return found
