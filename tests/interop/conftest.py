"""Apache Hudi's engines, one for each version, shared by all tests: each takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.hbase_hudi import write_client_settings
from tests.support.hudi import HUDI_VERSIONS, LAST_WITH_HBASE, HudiEngine


@pytest.fixture(scope="session", params=HUDI_VERSIONS)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiEngine]:
    """Hudi in every version; a test that names one (``newest_only``) gets that one."""
    class_path = None
    if request.param == LAST_WITH_HBASE:
        class_path = tmp_path_factory.mktemp("class-path")
        write_client_settings(class_path)
    with HudiEngine(request.param, class_path) as started:
        yield started
