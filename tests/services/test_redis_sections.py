"""Tasks on several machines write an index in servers, so a commit is put into sections sooner than for a store on one machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import rli
from rli.file_group.journal_list import load_journals
from rli.index.record.entries.limits import IndexLimits
from rli.storage import Storage
from tests.support.docker import Service
from tests.support.indexes import limit_index
from tests.support.redis import dropped_afterwards, redis_url

pytestmark = pytest.mark.docker

_ROWS = 8_000


def test_server_gets_commit_in_sections(redis_server: Service, tmp_path: Path) -> None:
    records = pa.table({"id": pa.array(np.arange(_ROWS)).cast(pa.string())})
    with dropped_afterwards(redis_url(redis_server)) as in_servers:
        limits = IndexLimits(commit_keys_side_by_side=_ROWS - 1, share_of_journals=1)
        for index, is_in_sections in ((in_servers, True), (f"lmdb://{tmp_path}/index", False)):
            folder = tmp_path / index.partition(":")[0]
            with rli.create_table(folder, record_key="id", index=index) as table:
                limit_index(table, limits)
                assert table.upsert(records).inserted == _ROWS
                journals = load_journals(Storage(str(folder)), table.timeline()[-1].time)
                assert journals
                assert all(journal.is_in_sections is is_in_sections for journal in journals)
                assert table.verify_index().agrees
