"""A clustering that Hudi has planned and not run: rli keeps off its file groups, as Hudi's own writers do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import ConflictError
from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine, HudiError
from tests.support.hudi_options import newest_only, write_options

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P57")]

BY_CITY = Layout(partition_by=("city",))


def upsert_with_hudi(engine: HudiEngine, history: History, rows: list[Row]) -> None:
    options = {**write_options(engine, BY_CITY), "hoodie.metadata.enable": "false"}
    engine.write(history.path, pa.Table.from_pylist(rows, SCHEMA), options)


def run_clustering(engine: HudiEngine, history: History, step: str) -> None:
    engine.sql(
        f"call run_clustering(path => '{history.path}', op => '{step}', options => "
        "'hoodie.metadata.enable=false,hoodie.write.table.version=6,hoodie.write.auto.upgrade=false')",
        STAY_ON_VERSION_6,
    )


@newest_only
def test_writes_avoid_a_pending_clustering(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path, small_file_size=0)
    for number in range(3):
        history.upsert([trip(f"a{number}"), trip(f"r{number}", city="Rome")])
    upsert_with_hudi(engine, history, [trip("h")])
    history.expect_upserted([trip("h")])
    run_clustering(engine, history, "schedule")
    [planned] = [found for found in history.table.timeline() if not found.is_completed]

    with pytest.raises(ConflictError, match="pending clustering") as refused:
        history.table.upsert(pa.Table.from_pylist([trip("a0", ts=2)], SCHEMA), attempts=1)
    assert refused.value.instants == (planned.time,)
    with pytest.raises(HudiError, match="HoodieClusteringUpdateException"):
        upsert_with_hudi(engine, history, [trip("a0", ts=2)])
    # New records go to file groups that the plan does not name, and a clustering of rli leaves those of the plan alone.
    history.upsert([trip("new"), trip("new in Rome", city="Rome")])
    assert history.table.cluster().files_replaced == 0

    run_clustering(engine, history, "execute")
    history.upsert([trip("a0", ts=2)])
    require_agreement(history)
    require_hudi_agrees(engine, history)
    history.table.close()
