"""Hudi and processes of rli write one table at the same moment, under a lock of Hudi."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.support.at_once import Run, Scene, as_table, first_rows
from tests.support.at_once_checks import Outcome, require_serial
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, newest_only
from tests.support.object_store import running_object_store
from tests.support.s3a import place_in_s3
from tests.support.soak import cases
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

CLUSTERING_BESIDE_OTHERS: Final = {"hoodie.datasource.write.row.writer.enable": "false"}
"""Otherwise, a clustering of Hudi 0.15 fails while an earlier commit is pending."""

ARCHIVES_AT_ONCE: Final = {
    "hoodie.cleaner.commits.retained": "18",
    "hoodie.keep.min.commits": "20",
    "hoodie.keep.max.commits": "21",
}
"""Hudi cleans and archives after nearly every commit what writes of rli build on that are at work or paused. It leaves as many commits as
complete during one of its own: otherwise the index could not follow (P65)."""

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

_STORAGE: Final = "storage"
"""The lock of scenes whose tables are in S3; their servers are not known yet."""
SCENES: Final = {
    "services": Scene(has_services=True, has_deaths=True),
    "metadata": Scene(metadata=_FILES, has_services=True, has_deaths=True),
    "record index": Scene(metadata=_RECORDS, hudi_index="RECORD_INDEX", has_services=True, has_deaths=True),
    "shared index": Scene(
        index="record-index:", metadata=_RECORDS, hudi_index="RECORD_INDEX", has_services=True, has_deaths=True
    ),
    "buckets": _BUCKETS,
    "spark": Scene(has_spark=True, has_services=True, has_deaths=True),
    "zookeeper": Scene(lock=_ZOOKEEPER, has_services=True, has_deaths=True),
    "storage": Scene(lock=_STORAGE, has_services=True, has_deaths=True),
    "two versions": Scene(hudi=(NEWEST, "1.0.2"), has_services=True, has_deaths=True),
    "old version": Scene(
        hudi=("0.15.0",), lock=_ZOOKEEPER, has_services=True, has_deaths=True, options=CLUSTERING_BESIDE_OTHERS
    ),
    "archives": Scene(has_services=True, has_deaths=True, options=ARCHIVES_AT_ONCE),
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
    "version 9, merge on read, buckets, storage": replace(_BUCKETS, version=9, has_logs=True, lock=_STORAGE),
    "version 9, merge on read": Scene(version=9, has_logs=True, has_services=True, has_deaths=True),
    "version 9, merge on read, buckets, spark": replace(_BUCKETS, version=9, has_logs=True, has_spark=True),
}
"""Each pair of a lock, an index of Hudi, a version of the table and an engine of rli is in one of them at least."""


def run_scene(scene: Scene, engines: list[HudiEngine], folder: Path, writes: int, seconds: float) -> None:
    print(f"RLI_HISTORY_SEED={SEED}")  # noqa: T201  (shown when the test fails)
    table, place, first = scene.create(folder), scene.place_in(folder), first_rows(len(engines))
    table.upsert(as_table(first))
    if scene.metadata and not table.metadata.status().partitions:
        table.metadata.enable(scene.metadata)
    run = Run(scene, place, folder, random.Random(SEED), writes, seconds)
    batches = run.go(engines)
    print(run.summary(batches))  # noqa: T201  (with -s, of each history)
    for seen in run.seen:
        seen.require_whole(batches)
    committed = {one.own[:4] for one in batches if one.outcome is Outcome.COMMITTED}
    assert "hudi" in committed, "Hudi committed nothing"
    with ExitStack() as stack:
        # A death may have taken the first ones.
        reader = stack.enter_context(scene.start(NEWEST)) if scene.has_deaths else engines[0]
        readers = {
            "Hudi": partial(reader.read, place.hudi_location),
            "Hudi without the metadata table": partial(
                reader.read, place.hudi_location, {"hoodie.metadata.enable": "false"}
            ),
        }
        standing = require_serial(table, first, batches, readers)
    if not scene.has_services:
        instants = [instant.time for instant in table.timeline() if instant.is_completed and instant.is_write]
        assert len(instants) == 1 + len(standing)
        assert {one.instant for one in standing if one.instant is not None} < {*instants}
    table.close()


def with_servers(scene: Scene, stack: ExitStack, folder: Path) -> Scene:
    """The scene, with the servers that its lock needs."""
    if scene.lock == _ZOOKEEPER:
        server = stack.enter_context(running_zookeeper(folder))
        return replace(scene, lock=f"zookeeper://{server}/hudi/at-once?key=trips")
    if scene.lock == _STORAGE:
        (folder / "class-path").mkdir()
        store = stack.enter_context(running_object_store(folder))
        return replace(scene, place=place_in_s3(store, folder / "class-path"))
    return scene


@newest_only
def test_nothing_is_lost_or_doubled(engine: HudiEngine, tmp_path: Path) -> None:
    run_scene(Scene(), [engine], tmp_path, cases(WRITES_OF_HUDI), float("inf"))


@pytest.mark.soak
@pytest.mark.parametrize("scene", SCENES)
def test_deaths_lose_nothing(scene: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        found = with_servers(SCENES[scene], stack, tmp_path)
        engines = [stack.enter_context(found.start(version)) for version in found.hudi]
        run_scene(found, engines, tmp_path, 1 << 30, SECONDS_IN_SOAK)
