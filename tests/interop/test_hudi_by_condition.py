"""Hudi reads what deletes and updates by a condition leave, and writes on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import Layout, new_history, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import newest_only

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",), hive_style=True)


@newest_only
def test_hudi_reads_writes_by_condition(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    history.upsert([trip("a"), trip("b", city="Rome"), trip("c", city="Lima"), trip("d")])
    assert history.table.delete_where("city = 'Lima' or id = 'd'").deleted == 2
    history.expect_deleted(["c", "d"])
    done = history.table.update_where("city = 'Rome'", {"fare": "9.5"})
    assert done.updated == 1
    history.expect_upserted([trip("b", city="Rome", fare=9.5)])
    moved = history.table.update_where("id = 'a'", {"city": "'Bern'"})
    assert moved.moved == 1
    history.expect_upserted([trip("a", city="Bern")])
    require_agreement(history)
    require_hudi_agrees(engine, history)
    history.table.close()
