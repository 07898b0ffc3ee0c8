"""The memory store keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from rli.testing import StoreConformance


class TestMemoryStore(StoreConformance):
    shares_processes: ClassVar[bool] = False

    def make_url(self, tmp_path: Path) -> str:
        return f"memory:{tmp_path.name}-{uuid4().hex}"
