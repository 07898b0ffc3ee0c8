"""Apache Hudi's engines, one for each version, shared by all tests: each takes seconds to start.

Which versions a test of Hudi runs with: those whose format or code differs in what it promises, and no more.

- The newest, always. It writes tables of version 6 and of version 9.
- 0.15.0, where a Hudi that knows version 6 alone reads, writes or undoes: one test of each.
- 1.0.2, where tables of version 8 differ from those of version 9: reading, writing in turn, upgrades, the index in HBase.
  Timeline and archive are the same in both, so tests of clean, archive, clustering and savepoints leave it to
  ``make soak``, which runs every test with all versions that it names (``with_hudi`` in ``tests.support.hudi_options``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.folders import tmp_path, tmp_path_factory
from tests.support.hbase_hudi import write_client_settings
from tests.support.hudi import HUDI_VERSIONS, LAST_WITH_HBASE, HudiEngine

__all__ = ["tmp_path", "tmp_path_factory"]


@pytest.fixture(scope="session", params=HUDI_VERSIONS)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiEngine]:
    """Hudi in every version; a test that names some (``with_hudi``) gets these."""
    class_path = list[Path]()
    if request.param == LAST_WITH_HBASE:
        class_path.append(tmp_path_factory.mktemp("class-path"))
        write_client_settings(*class_path)
    with HudiEngine(request.param, *class_path) as started:
        yield started
