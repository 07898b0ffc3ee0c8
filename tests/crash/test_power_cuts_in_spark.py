"""The power goes off after a Spark upsert: executors have synced what they wrote before the commit has its name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import rli_spark
from rli import Step
from tests.crash.test_power_cuts import Place
from tests.crash.writes import BATCH, open_copy, require_recovery
from tests.support.children import start_child
from tests.support.power import Disk, Journal
from tests.support.spark_drivers import Door, door_of, joined_session

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.one_spark]

_CUT: Final = (Step.PROMOTED, Step.PUBLISHED, Step.FINISHED)


def upsert_and_cut(door: Door, place: Place) -> None:
    """A child's work: it drives an upsert whose tasks run in the processes of the session."""

    def on_step(step: Step) -> None:
        if step in _CUT:
            place.cut(_CUT.index(step), step)

    frame = joined_session(door).createDataFrame(BATCH, "id string, city string, ts long, v double")
    rli_spark.upsert(frame, open_copy(place.disk.mounted_at), on_step=on_step)


def test_power_cut_after_spark_upsert(spark: SparkSession, tmp_path: Path, template: Path) -> None:
    place = Place(Disk.made_in(tmp_path, Journal.OFF), tmp_path / "index")
    with place.disk.mounted():
        place.fill(template)
        child = start_child(upsert_and_cut, door_of(spark), place)
        child.join()
        assert child.exitcode == 0
    cuts = place.cuts()
    assert [point for _, point in cuts] == list(_CUT)
    for disk, point in cuts:
        place.go_back(disk)
        with disk.mounted() as folder:
            took_effect = require_recovery(folder, "upsert", "upsert", drop=False)
        assert took_effect or point != Step.FINISHED
