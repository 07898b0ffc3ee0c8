"""Keys of records of the metadata table.

Columns and partitions stand in keys as the base64 of their 64-bit xxHash, file names as the base64 of their MD5.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import Final

from rli.hudi.xx_hash import long_xx_hash

PARTITION_LIST_KEY: Final = "__all_partitions__"
"""Key of the record that lists the partitions of the table, in the partition ``files``."""

UNPARTITIONED: Final = "."
"""Stands for the empty partition path of a table without partitions."""

_PARTITION_STATISTICS: Final = "__partition_stat__"
_SEED: Final = 0xFFFFFFFFDABADABA
_MOST_REMEMBERED: Final = 65_536
_SEPARATOR: Final = "$"
_NULL: Final = "\0"
_ESCAPED: Final = re.compile(r"([\\$\0])")
_UNESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SECONDARY_KEY: Final = re.compile(r"((?:[^\\$]|\\.)*)\$((?:[^\\$]|\\.)*)", re.DOTALL)


def files_key(partition_path: str) -> str:
    """Key of the record that lists the files of a partition, and the partition's name in the list of partitions.

    Example:
        >>> files_key("")
        '.'
    """
    return partition_path or UNPARTITIONED


def partition_path_of(files_key: str) -> str:
    """The partition path that a key of the partition ``files`` stands for."""
    return "" if files_key == UNPARTITIONED else files_key


def column_stats_key(column: str, partition_path: str, file_name: str) -> str:
    """Key of the statistics of a column in a file.

    Example:
        >>> len(column_stats_key("city", "year=2024", "f1-0_0-0-0_20240531120000123.parquet"))
        48
    """
    return _short_hash(column) + _short_hash(files_key(partition_path)) + _file_hash(file_name)


def partition_stats_key(column: str, partition_path: str) -> str:
    """Key of the statistics of a column in a partition of the table."""
    return _short_hash(column) + _short_hash(files_key(partition_path))


def expression_partition_key(column: str, partition_path: str) -> str:
    """Key of the statistics of an expression over a column in a partition of the table."""
    return _short_hash(column) + _short_hash(_PARTITION_STATISTICS) + _short_hash(files_key(partition_path))


def bloom_filter_key(partition_path: str, file_name: str) -> str:
    """Key of the bloom filter of a file."""
    return _short_hash(files_key(partition_path)) + _file_hash(file_name)


def secondary_key(secondary: str | None, record_key: str) -> str:
    r"""Key of an entry of a secondary index.

    Args:
        secondary: value of the indexed column as a string; None for null.
        record_key: of the record.

    Example:
        >>> secondary_key("a$b", "k2")
        'a\\$b$k2'
    """
    return secondary_prefix(secondary) + _escaped(record_key)


def secondary_prefix(secondary: str | None) -> str:
    """How keys of a value begin: the escaped value and the separator. Its hash decides on the file group."""
    return (_NULL if secondary is None else _escaped(secondary)) + _SEPARATOR


def split_secondary_key(key: str) -> tuple[str | None, str]:
    """The value and the record key in a key of a secondary index.

    Raises:
        ValueError: the key has another form.
    """
    match = _SECONDARY_KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"not a key of a secondary index: key={key!r}")
    secondary, record_key = match.groups()
    return None if secondary == _NULL else _UNESCAPED.sub(r"\1", secondary), _UNESCAPED.sub(r"\1", record_key)


def _escaped(text: str) -> str:
    return _ESCAPED.sub(r"\\\1", text)


@lru_cache(_MOST_REMEMBERED)
def _short_hash(text: str) -> str:
    return base64.b64encode(long_xx_hash(text.encode(), _SEED).to_bytes(8, "big")).decode()


@lru_cache(_MOST_REMEMBERED)
def _file_hash(file_name: str) -> str:
    return base64.b64encode(hashlib.md5(file_name.encode(), usedforsecurity=False).digest()).decode()
