"""Indexings of Hudi beside rli: what its indexer left behind is aborted, and what it has scheduled is carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import ConflictError, Table, create_table
from tests.support.histories import Layout
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_options import newest_only, table_options
from tests.support.indexings import schedule_indexing
from tests.support.tables import turn_into_version_9

# In CI, tests/table/test_pending_indexings.py has the files that Hudi's indexer writes, without Hudi.
pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak, pytest.mark.invariant("P63")]

_SETTINGS: Final = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
_READING: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


def _rows(*keys: str) -> pa.Table:
    return pa.table(
        {"id": [*keys], "city": ["x"] * len(keys), "ts": [1] * len(keys), "email": [f"{k}@x" for k in keys]}
    )


def _require_found(engine: HudiEngine, table: Table, *keys: str) -> None:
    for key in keys:
        found = engine.read(table.location, _READING, f"email = '{key}@x'")
        assert found["id"].to_pylist() == [key]
        assert table.read(["id"], filters=[("email", "=", f"{key}@x")])["id"].to_pylist() == [key]
    assert table.metadata.verify() == ()


@newest_only
def test_each_side_ends_the_other_indexing(engine: HudiEngine, tmp_path: Path) -> None:
    location = tmp_path / "t"
    table = create_table(
        location, record_key="id", partition_by="city", ordering="ts", name="t", lock="filesystem", if_exists="fail"
    )
    turn_into_version_9(table)
    table.upsert(_rows("a", "b"))
    table.metadata.enable(["files", "record_index"])
    engine.sql(f"create table indexings using hudi location '{location}'")
    # The indexer dies before its index has files.
    (file,) = location.glob("x/*.parquet")
    hidden = file.rename(tmp_path / "hidden")
    with pytest.raises(HudiError):
        engine.sql("create index by_email on indexings (email)", _SETTINGS)
    hidden.rename(file)
    with pytest.raises(ConflictError, match="secondary_index_by_email"):
        table.upsert(_rows("c"), attempts=1)
    assert table.drop_index("by_email")
    table.upsert(_rows("c"))
    engine.sql("create index by_email on indexings (email)", _SETTINGS)
    _require_found(engine, table, "a", "c")
    # Hudi's plan, which rli carries out.
    timeline = location / ".hoodie/timeline"
    schedule_indexing(timeline, "20260101000000000", ["bloom_filters"], table.timeline()[-1].time)
    assert [index.name for index in table.build_indexes()] == ["bloom_filters"]
    options = {**table_options(Layout(partition_by=("city",), hive_style=False), "t"), **_SETTINGS}
    engine.write(location, _rows("d"), {**options, "hoodie.datasource.write.operation": "upsert"})
    table.upsert(_rows("e"))
    _require_found(engine, table, "a", "d", "e")
