"""What a partition path says of the records below it, for readers that want to pass over partitions."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from rli.hudi.key_generator import DEFAULT_PARTITION
from rli.hudi.properties import KeyGeneratorKind, TableProperties

_PLAIN_KINDS: Final = (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.COMPLEX, KeyGeneratorKind.CUSTOM)
# Hudi keeps these settings with every table that has a partition formed from a time, custom key generators included.
_TIME_SETTINGS: Final = "keygen.timebased."


def partition_expression(properties: TableProperties, schema: pa.Schema, partition_path: str) -> pc.Expression:
    """An expression that holds for every record of a partition; the literal true where its path says nothing sure.

    Args:
        properties: of the table.
        schema: of its records.
        partition_path: of the partition.
    """
    known = pc.scalar(pa.scalar(True))
    fields = properties.partition_fields
    forms_times = any(_TIME_SETTINGS in key for key in properties.raw)
    if properties.key_generator not in _PLAIN_KINDS or forms_times:
        return known
    folders = [partition_path] if len(fields) == 1 else partition_path.split("/")
    if len(folders) != len(fields):
        return known
    for name, folder in zip(fields, folders, strict=True):
        value = _value(properties, schema, name, folder)
        if value is not None:
            known = known & (pc.field(name) == value)
    return known


def _value(properties: TableProperties, schema: pa.Schema, name: str, folder: str) -> pa.Scalar | None:
    text = folder.removeprefix(f"{name}=") if properties.hive_style else folder
    if text == DEFAULT_PARTITION or name not in schema.names:
        return None
    kind = schema.field(name).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind)):
        return None
    try:
        return pa.scalar(unquote(text) if properties.url_encode else text).cast(kind)
    except pa.ArrowInvalid:
        return None
