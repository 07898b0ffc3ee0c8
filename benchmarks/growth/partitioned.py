"""Tables by partition, and records for them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

import rli
from benchmarks.keys import uuid_keys

_NEVER_FULL: Final = 1 << 40
"""Bytes of a base file."""


def new_table(path: Path, target_file_size: int = _NEVER_FULL) -> rli.Table:
    """An empty table with its index in LMDB."""
    return rli.create_table(
        path, record_key="id", partition_by="part", index=f"lmdb://{path}-index", target_file_size=target_file_size
    )


def records_of(part: str, count: int, seed: int) -> pa.Table:
    """Records of one partition, with UUIDs as keys."""
    keys = uuid_keys(count, seed)
    return pa.table({"id": keys, "part": pa.array([part] * count), "note": keys})
