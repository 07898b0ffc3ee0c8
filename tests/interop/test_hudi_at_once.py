"""Hudi and processes of rli write one table at the same moment, under a lock of Hudi."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.support.at_once import Outcome, Run, Scene, as_table, first_rows, require_serial
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, newest_only
from tests.support.soak import cases, in_ci
from tests.support.zookeeper import running_zookeeper

pytestmark = [
    pytest.mark.hudi,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.invariant("P55"),
    pytest.mark.invariant("P57"),
]

SEED = int(os.environ.get("RLI_HISTORY_SEED", str(random.SystemRandom().randrange(1 << 32))))
WRITES_OF_HUDI: Final = 4
SECONDS_IN_SOAK: Final = int(os.environ.get("RLI_SCENE_SECONDS", "120"))
"""Of each scene."""

BUCKET_STRATEGY: Final = "org.apache.hudi.client.transaction.BucketIndexConcurrentFileWritesConflictResolutionStrategy"
"""By it, Hudi compares buckets: two writers may make the first file group of a bucket at once."""

_FILES: Final = ("files",)
_RECORDS: Final = ("files", "record_index")
_BUCKETS: Final = Scene(
    index="bucket:?buckets=3",
    hudi_index="BUCKET",
    has_services=True,
    has_deaths=True,
    options={
        "hoodie.bucket.index.num.buckets": "3",
        "hoodie.write.lock.conflict.resolution.strategy": BUCKET_STRATEGY,
    },
)
_ZOOKEEPER: Final = "zookeeper://"
"""The lock of scenes with one in ZooKeeper; their servers are not known yet."""
SCENES: Final = {
    "alone": Scene(),
    "services": Scene(has_services=True, has_deaths=True),
    "metadata": Scene(metadata=_FILES, has_services=True, has_deaths=True),
    "record index": Scene(metadata=_RECORDS, hudi_index="RECORD_INDEX", has_services=True, has_deaths=True),
    "shared index": Scene(
        index="record-index:", metadata=_RECORDS, hudi_index="RECORD_INDEX", has_services=True, has_deaths=True
    ),
    "buckets": _BUCKETS,
    "spark": Scene(has_spark=True, has_services=True, has_deaths=True),
    "zookeeper": Scene(lock=_ZOOKEEPER, has_services=True, has_deaths=True),
    "two versions": Scene(hudi=(NEWEST, "1.0.2"), has_services=True, has_deaths=True),
    "old version": Scene(hudi=("0.15.0",), lock=_ZOOKEEPER, has_services=True, has_deaths=True),
    "merge on read": Scene(has_logs=True, has_services=True, has_deaths=True),
    "version 8": Scene(hudi=("1.0.2",), version=8, has_services=True, has_deaths=True),
    "version 8, spark, zookeeper": Scene(
        hudi=("1.0.2",), version=8, lock=_ZOOKEEPER, has_spark=True, has_services=True, has_deaths=True
    ),
    "version 9": Scene(version=9, has_services=True, has_deaths=True),
    "version 9, record index, zookeeper": Scene(
        version=9,
        lock=_ZOOKEEPER,
        metadata=_RECORDS,
        hudi_index="RECORD_INDEX",
        has_services=True,
        has_deaths=True,
    ),
    "version 9, shared index, spark": Scene(
        index="record-index:",
        version=9,
        metadata=_RECORDS,
        hudi_index="RECORD_INDEX",
        has_spark=True,
        has_services=True,
        has_deaths=True,
    ),
    "version 9, buckets, zookeeper": replace(_BUCKETS, version=9, lock=_ZOOKEEPER),
    "version 9, merge on read": Scene(version=9, has_logs=True, has_services=True, has_deaths=True),
    "version 9, merge on read, buckets, spark": replace(_BUCKETS, version=9, has_logs=True, has_spark=True),
}
"""Each pair of a lock, an index of Hudi, a version of the table and an engine of rli is in one of them at least; the lock in a storage is in none."""


def run_scene(scene: Scene, engines: list[HudiEngine], folder: Path, writes: int, seconds: float) -> None:
    print(f"RLI_HISTORY_SEED={SEED}")  # noqa: T201  (shown when the test fails)
    table, first = scene.create(folder), first_rows(len(engines))
    table.upsert(as_table(first))
    if scene.metadata and not table.metadata.status().partitions:
        table.metadata.enable(scene.metadata)
    run = Run(scene, table, folder, random.Random(SEED), writes, seconds)
    batches = run.go(engines)
    for seen in run.seen:
        seen.require_whole(batches)
    committed = {one.rows[-1]["id"][:4] for one in batches if one.outcome is Outcome.COMMITTED}
    assert "hudi" in committed, "Hudi committed nothing"
    with ExitStack() as stack:
        # A death may have taken the first ones.
        reader = stack.enter_context(HudiEngine(NEWEST)) if scene.has_deaths else engines[0]
        standing = require_serial(table, first, batches, reader)
    if not scene.has_services:
        instants = [instant.time for instant in table.timeline() if instant.is_completed and instant.is_write]
        assert len(instants) == 1 + len(standing)
        assert {one.instant for one in standing if one.instant is not None} < {*instants}
    table.close()


@pytest.mark.parametrize("scene", in_ci(["alone"], of=SCENES))
@newest_only
def test_nothing_is_lost_or_doubled(engine: HudiEngine, scene: str, tmp_path: Path) -> None:
    found = SCENES[scene]
    if not found.has_deaths:
        run_scene(found, [engine], tmp_path, cases(WRITES_OF_HUDI), float("inf"))
        return
    with ExitStack() as stack:
        if found.lock == _ZOOKEEPER:
            server = stack.enter_context(running_zookeeper(tmp_path))
            found = replace(found, lock=f"zookeeper://{server}/hudi/at-once?key=trips")
        engines = [stack.enter_context(HudiEngine(version)) for version in found.hudi]
        run_scene(found, engines, tmp_path, 1 << 30, SECONDS_IN_SOAK)
