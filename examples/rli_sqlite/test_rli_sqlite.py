"""The example store keeps the contract: all that a store's own tests need to say."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from rli.testing import StoreConformance


class TestSqliteStore(StoreConformance):
    def make_url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/{uuid4().hex}.db"
