"""The kinds of index, by the scheme of a URL: the only module that knows them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rli.index.contract import IndexKind
from rli.index.record.kind import RecordKind

_RECORD: Final = RecordKind()

_KINDS: Final[Mapping[str, IndexKind]] = {}
"""The kinds whose URLs do not name a store, by scheme."""


def index_kind(url: str) -> IndexKind:
    """The kind of index that a URL names; every store's URL names the record index in that store."""
    return _KINDS.get(url.partition(":")[0], _RECORD)
