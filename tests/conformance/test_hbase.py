"""The HBase store keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest

from rli.testing import StoreConformance
from tests.support.docker import Service
from tests.support.services import HBASE_PORT


@pytest.mark.docker
class TestHbaseStore(StoreConformance):
    service: ClassVar[Service]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _service(cls, hbase: Service) -> None:
        cls.service = hbase

    def make_url(self, tmp_path: Path) -> str:
        _ = tmp_path
        return f"hbase://{self.service.host}:{self.service.ports[HBASE_PORT]}/?table=t_{uuid4().hex}"
