"""The embedded store keeps the contract."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from rli.testing import StoreConformance


class TestLmdbStore(StoreConformance):
    def make_url(self, tmp_path: Path) -> str:
        return f"lmdb://{tmp_path}/{uuid4().hex}"
