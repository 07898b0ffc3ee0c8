"""Indexes used alone, whose stores, entries and commit logs tests look into."""

from __future__ import annotations

from typing import Any

import rli
from rli.index.record.stored_index import StoredIndex, stored_index


def create_index(url: str, **options: Any) -> StoredIndex:
    return stored_index(rli.create_index(url, **options))


def open_index(url: str) -> StoredIndex:
    return stored_index(rli.open_index(url))
