"""Rows compared regardless of their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


def sorted_rows(rows: pa.Table | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows as dictionaries with their columns by name, in an order that equal tables share."""
    listed = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    return sorted(({name: row[name] for name in sorted(row)} for row in listed), key=repr)
