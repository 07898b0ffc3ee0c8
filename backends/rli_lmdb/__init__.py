"""The embedded store of rli: an LMDB environment, shared by the processes of one machine."""

from __future__ import annotations

from rli_lmdb.store import LmdbStore, open_lmdb_store

__all__ = ["LmdbStore", "open_lmdb_store"]
