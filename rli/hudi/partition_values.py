"""What a partition path says of the records below it, for readers that want to pass over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.column_bounds import ColumnBounds, bound_type
from rli.filters.predicates import Column
from rli.hudi.key_generator import DEFAULT_PARTITION
from rli.hudi.properties import Key, KeyGeneratorKind, TableProperties

_PLAIN_KINDS: Final = (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.COMPLEX, KeyGeneratorKind.CUSTOM)
# Hudi keeps these settings with every table that has a partition formed from a time, custom key generators included.
_TIME_SETTINGS: Final = "keygen.timebased."


def partition_values(properties: TableProperties, schema: pa.Schema, partition_path: str) -> dict[str, pa.Scalar]:
    """The values of partition columns that every record of a partition has; without those of which its path says nothing sure.

    Args:
        properties: of the table.
        schema: of its records.
        partition_path: of the partition.
    """
    fields = properties.partition_fields
    forms_times = any(_TIME_SETTINGS in key for key in properties.raw)
    if properties.key_generator not in _PLAIN_KINDS or forms_times:
        return {}
    folders = [partition_path] if len(fields) == 1 else partition_path.split("/")
    if len(folders) != len(fields):
        return {}
    values = {name: _value(properties, schema, name, folder) for name, folder in zip(fields, folders, strict=True)}
    return {name: value for name, value in values.items() if value is not None}


def values_left_out(properties: TableProperties, schema: pa.Schema, partition_path: str) -> pc.Expression:
    """The values of partition columns that a table leaves out of its files, as an expression that equates them.

    In other tables the literal true: the files hold the values. Arguments are those of ``partition_values``.
    """
    known = pc.scalar(pa.scalar(True))
    if properties.is_set(Key.DROP_PARTITION_COLUMNS):
        for name, value in partition_values(properties, schema, partition_path).items():
            known = known & (pc.field(name) == value)
    return known


def with_values_left_out(properties: TableProperties, records: pa.Table, partition_path: str) -> pa.Table:
    """Records of a partition with the values of ``values_left_out`` in their columns; other arguments are those of it."""
    if not properties.is_set(Key.DROP_PARTITION_COLUMNS):
        return records
    for name, value in partition_values(properties, records.schema, partition_path).items():
        if name in records.column_names:
            column = records.schema.get_field_index(name)
            records = records.set_column(column, records.schema.field(name), pa.repeat(value, len(records)))
    return records


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """The bounds of partition columns in some partitions; a unit is a partition.

    Attributes:
        schema: of the table's records.
        values: the known values in each partition.
    """

    schema: pa.Schema
    values: Sequence[dict[str, pa.Scalar]]

    @property
    def units(self) -> int:
        return len(self.values)

    def of(self, column: Column) -> ColumnBounds | None:
        name, *inside = column
        if inside or not any(name in known for known in self.values):
            return None
        kind = self.schema.field(name).type
        found = pa.array([known.get(name) for known in self.values], kind).cast(bound_type(kind))
        return ColumnBounds(
            found, found, np.array([name not in known for known in self.values]), np.ones(self.units, np.bool_)
        )


def _value(properties: TableProperties, schema: pa.Schema, name: str, folder: str) -> pa.Scalar | None:
    text = folder
    if properties.hive_style:
        if not folder.startswith(f"{name}="):
            return None
        text = folder.removeprefix(f"{name}=")
    if text == DEFAULT_PARTITION or name not in schema.names:
        return None
    kind = schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind)):
        return None
    try:
        return pa.scalar(unquote(text, errors="strict") if properties.url_encode else text).cast(kind)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
