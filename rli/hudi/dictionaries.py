"""Which columns of a Parquet file are worth a dictionary.

A dictionary of values that hardly ever repeat, as keys do, takes room and time and saves neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE_ROWS: Final = 1_024
_MOST_DISTINCT: Final = 0.9


def columns_with_dictionary(records: pa.Table, distinct: Collection[str] = ()) -> list[str]:
    """The Parquet columns, by their paths, that are to have a dictionary.

    Args:
        records: the first rows of the file. Columns with parts always get dictionaries.
        distinct: columns of which no value repeats.
    """
    sample = records.slice(0, _SAMPLE_ROWS)
    most = _MOST_DISTINCT * sample.num_rows
    return [
        path
        for field in records.schema
        if field.name not in distinct
        if pa.types.is_nested(field.type) or pc.count_distinct(sample.column(field.name)).as_py() <= most
        for path in _leaves(field)
    ]


def _leaves(field: pa.Field, parent: str = "") -> Iterator[str]:
    """Paths of the Parquet columns that a field is kept in, as the Parquet format names the parts of lists and maps."""
    path = f"{parent}{field.name}"
    if pa.types.is_struct(field.type):
        for number in range(field.type.num_fields):
            yield from _leaves(field.type.field(number), f"{path}.")
    elif pa.types.is_map(field.type):
        yield from _leaves(field.type.key_field.with_name("key"), f"{path}.key_value.")
        yield from _leaves(field.type.item_field.with_name("value"), f"{path}.key_value.")
    elif pa.types.is_nested(field.type):
        yield from _leaves(field.type.value_field.with_name("element"), f"{path}.list.")
    else:
        yield path
