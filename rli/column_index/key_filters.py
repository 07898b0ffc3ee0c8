"""Files that hold none of some record keys, told by the bloom filters of the metadata table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from rli.hudi.bloom_filter import FILTER_KEY, TYPE_KEY, BloomFilter
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.records import StoredBloomFilter
from rli.hudi.metadata.views import DataFile, bloom_filters

_FILTERS_AT_A_TIME: Final = 256
"""In memory; one has some hundred kilobytes."""


def files_that_may_hold(reader: MetadataTableReader, keys: pa.Array, files: Sequence[DataFile]) -> list[bool]:
    """Whether each of some files may hold one of some record keys; a file without a filter may.

    Args:
        reader: of the metadata table.
        keys: string array.
        files: partition paths and names.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    kept: list[bool] = []
    for start in range(0, len(files), _FILTERS_AT_A_TIME):
        some = files[start : start + _FILTERS_AT_A_TIME]
        found = bloom_filters(reader, some)
        kept += [file not in found or _may_hold(found[file], keys, file) for file in some]
    return kept


def decoded_filter(stored: StoredBloomFilter, file: DataFile) -> BloomFilter | None:
    """The bloom filter that the metadata table has of a file; None if it cannot be used.

    Raises:
        CorruptTableError: it is damaged.
    """
    entries = {FILTER_KEY.encode(): stored.content, TYPE_KEY.encode(): stored.type_code.encode()}
    return BloomFilter.from_footer(entries, "/".join(file))


def _may_hold(stored: StoredBloomFilter, keys: pa.Array, file: DataFile) -> bool:
    bloom_filter = decoded_filter(stored, file)
    return bloom_filter is None or bool(bloom_filter.might_contain(keys).any())
