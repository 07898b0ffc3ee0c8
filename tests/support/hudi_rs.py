"""The `hudi` package (hudi-rs) as a reader of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from tests.support.meta_columns import without_meta_columns

_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})


def read_with_hudi_rs(
    path: str | Path,
    as_of: str | None = None,
    filters: Sequence[tuple[str, str, str]] = (),
    storage_options: Mapping[str, str] = _NO_OPTIONS,
) -> pa.Table:
    """The rows of a table, without Hudi's meta columns; no columns at all where it finds no file to read."""
    options = HudiReadOptions(filters=list(filters)) if filters else HudiReadOptions()
    if as_of is not None:
        options = options.with_as_of_timestamp(as_of)
    builder = HudiTableBuilder.from_base_uri(str(path)).with_storage_options(dict(storage_options))
    batches = builder.build().read(options)
    return without_meta_columns(pa.Table.from_batches(batches)) if batches else pa.table({})
