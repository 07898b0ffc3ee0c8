"""Tables whose properties leave open how their keys and partition paths are formed: their records tell.

Hudi's ComplexKeyGenerator over a single key column stores ``a`` in some releases and ``id:a`` in others. And what a
CustomKeyGenerator makes of a partition column (its value, or a time formatted in some way) is not kept with tables of
version 6.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import UnsupportedTableError
from rli.hudi.meta_columns import PARTITION_PATH, RECORD_KEY
from rli.hudi.properties import KeyGeneratorKind
from rli.view.snapshot import Snapshot

_LEAVE_FORM_OPEN: Final = (KeyGeneratorKind.COMPLEX, KeyGeneratorKind.CUSTOM)


def require_known_key_generation(snapshot: Snapshot) -> None:
    """Pass a table whose newest records have the keys and partition paths that rli would form.

    Raises:
        UnsupportedTableError: they have others, so that an upsert would store records a second time.
    """
    properties, latest = snapshot.table.properties, snapshot.timeline.latest_write
    has_one_form = properties.key_generator not in _LEAVE_FORM_OPEN or (
        properties.key_generator is KeyGeneratorKind.COMPLEX and len(properties.record_key_fields) > 1
    )
    if has_one_form or latest is None or snapshot.change(latest).is_native:
        return
    records = _newest_records(snapshot)
    if records is None:
        return
    key_generator = snapshot.table.key_generator
    for column, formed in (
        (RECORD_KEY, key_generator.record_keys(records)),
        (PARTITION_PATH, key_generator.partition_paths(records).cast(pa.string())),
    ):
        stored = records.column(column).combine_chunks()
        position = pc.index(pc.equal(stored, formed), False).as_py()
        if position >= 0:
            raise UnsupportedTableError(
                f"the table stores keys or partition paths in a form that rli does not write: table={properties.name} "
                f"column={column} stored={stored[position].as_py()!r} expected={formed[position].as_py()!r}",
                remedy="write it with Hudi, or copy its rows into a new table",
            )


def _newest_records(snapshot: Snapshot) -> pa.Table | None:
    """Key and partition columns of some records, of the file written last among those that hold any."""
    if snapshot.schema is None:
        return None
    properties = snapshot.table.properties
    names = dict.fromkeys((*properties.record_key_fields, *properties.partition_fields))
    schema = pa.schema(
        [
            *((name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH)),
            *(snapshot.schema.field(name) for name in names),
        ]
    )
    for file_slice in sorted(snapshot.slices.values(), key=lambda candidate: candidate.instant, reverse=True):
        with snapshot.reader(file_slice) as reader:
            for batch in reader.batches(schema):
                if batch.num_rows:
                    return batch
    return None
