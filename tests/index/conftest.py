"""What tests of the index share."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest


@pytest.fixture(params=["memory", "lmdb"])
def index_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL where no index is yet, of each store that needs no server."""
    return f"memory:{uuid4().hex}" if request.param == "memory" else f"lmdb://{tmp_path}/index"
