"""The driver of a Spark upsert dies at a step, and plain Python goes on with the table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

import rli_spark
from rli import Step
from tests.crash.conftest import Copies
from tests.crash.writes import BATCH, STEPS_BEFORE_PUBLICATION, die, open_copy, require_recovery
from tests.support.children import was_killed
from tests.support.soak import in_ci
from tests.support.spark_drivers import Door, door_of, joined_session

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.one_spark]

STEPS: Final[list[Step]] = [step for step in Step if step is not Step.FILE_GROUP_WRITTEN]
"""The steps that a driver sees: executors write file groups."""

FOLLOW_UPS = ("upsert", "rollback", "sync", "delete")


def upsert_and_die(door: Door, folder: Path, step: Step) -> None:
    """A child's work: it drives an upsert up to a step."""

    def on_step(reported: Step) -> None:
        if reported is step:
            die()

    spark = joined_session(door)
    frame = spark.createDataFrame(BATCH, "id string, city string, ts long, v double")
    rli_spark.upsert(frame, open_copy(folder), on_step=on_step)


FEW: Final = [Step.INFLIGHT, Step.WRITTEN, Step.FILE_PROMOTED, Step.PUBLISHED, Step.CHANGES_APPLIED]


@pytest.mark.parametrize("step", in_ci(FEW, of=STEPS))
def test_a_kill_at_a_step(spark: SparkSession, copies: Copies, step: Step) -> None:
    folder = copies.make()
    assert was_killed(upsert_and_die, door_of(spark), folder, step)
    took_effect = require_recovery(folder, "upsert", FOLLOW_UPS[STEPS.index(step) % len(FOLLOW_UPS)])
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)
