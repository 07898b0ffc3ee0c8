"""Apache Hudi's engines, one for each version, shared by all tests: each takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.hudi import HUDI_VERSIONS, HudiEngine


@pytest.fixture(scope="session", params=HUDI_VERSIONS)
def engine(request: pytest.FixtureRequest) -> Iterator[HudiEngine]:
    """Hudi in every version; a test that names one (``newest_only``) gets that one."""
    with HudiEngine(request.param) as started:
        yield started
