"""What tests of tables share."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from rli import Table, create_table
from tests.support.folders import tmp_path, tmp_path_factory
from tests.support.tables import turn_into_version_9

__all__ = ["tmp_path", "tmp_path_factory"]


@pytest.fixture
def memory_url() -> str:
    """A memory store of this test alone."""
    return f"memory:{uuid4().hex}"


@pytest.fixture
def trips(tmp_path: Path, memory_url: str) -> Table:
    """An empty table with key ``id``, partitions by ``city`` and ordering ``ts``."""
    return create_table(tmp_path / "trips", record_key="id", partition_by="city", ordering="ts", index=memory_url)


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, trips: Table) -> Table:
    """An empty table of either layout of the timeline."""
    if request.param == 9:
        turn_into_version_9(trips)
    return trips
