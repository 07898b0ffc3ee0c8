"""One key that Hudi and rli insert at the same moment: one insert wins if rli commits last, else the pair is told and healed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from rli import Step, Table
from tests.support.at_once import Scene, as_table
from tests.support.histories import Row, trip
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_options import newest_only
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows
from tests.support.soak import in_ci
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P57")]


SCENES: Final = {
    "index in a store": Scene(),
    "shared index": Scene(index="record-index:", metadata=("files", "record_index"), hudi_index="RECORD_INDEX"),
}


def write_with_hudi(
    engine: HudiEngine, table: Table, row: Row, operation: str = "upsert", scene: Scene = SCENES["index in a store"]
) -> None:
    options = {**scene.options_of(engine), "hoodie.datasource.write.operation": operation}
    engine.write(table.location, as_table([row]), options)


@contextmanager
def paused_in_a_write(engine: HudiEngine, table: Table, row: Row, operation: str = "upsert") -> Iterator[bool]:
    """Hudi has looked the key of a record up, and writes it; whether it does not hold the lock while it is paused."""
    markers = Path(table.location, ".hoodie/.temp")
    with ThreadPoolExecutor(1) as thread:
        write = thread.submit(write_with_hudi, engine, table, row, operation)
        eventually(lambda: write.done() or list(markers.rglob("*.marker.*")), "a file of Hudi's write")
        engine.pause()
        try:
            yield not write.done() and not Path(table.location, ".hoodie/lock").exists()
        finally:
            engine.resume()
        write.result()


def records_of(table: Table, key: str) -> int:
    return table.read(["id"], filters=f"id = '{key}'").num_rows


@pytest.mark.parametrize("name", in_ci(["index in a store"], of=SCENES))
@newest_only
def test_one_insert_wins_before_rli(engine: HudiEngine, name: str, tmp_path: Path) -> None:
    scene = SCENES[name]
    table = scene.create(tmp_path)
    table.upsert(as_table([trip("first")]))

    def hudi_inserts(step: Step) -> None:
        if step is Step.WRITTEN and not records_of(table, "shared"):
            write_with_hudi(engine, table, trip("shared", city="Rome", ts=1), scene=scene)

    # The check of keys finds the insert of Hudi.
    result = table.upsert(as_table([trip("shared", ts=2)]), on_step=hudi_inserts)
    assert (result.attempts, result.inserted, result.moved) == (2, 0, 1)
    assert records_of(table, "shared") == 1
    assert table.verify_index().agrees
    if scene.metadata:
        assert table.metadata.verify() == ()
    table.close()


@newest_only
def test_a_pair_is_told_and_healed(engine: HudiEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = Scene().create(tmp_path)
    table.upsert(as_table([trip("first")]))
    # Hudi is last, and compares file groups: the key is in two of them.
    for key in map("doubled {}".format, count()):
        with paused_in_a_write(engine, table, trip(key, city="Rome", ts=1, fare=1.0)) as is_between:
            if is_between:
                table.upsert(as_table([trip(key, ts=2, fare=2.0)]))
        if is_between:
            break
    assert records_of(table, key) == 2
    with caplog.at_level(logging.ERROR):
        table.sync_index()
    assert key in caplog.text
    assert table.verify_index().doubled == 1
    [told] = table.deduplicate().repeated
    assert (told.key, told.kept, told.removed[0][0]) == (key, "Oslo", "Rome")
    assert table.verify_index().agrees
    [row] = table.read(filters=f"id = '{key}'").to_pylist()
    assert row["fare"] == 2.0
    # Hudi goes on after the repair.
    write_with_hudi(engine, table, trip(key, city="Rome", ts=3))
    found = table.read()
    assert sorted_rows(found) == sorted_rows(without_meta_columns(engine.read(table.location)))
    assert records_of(table, key) == 1
    assert table.verify_index().agrees
    table.close()


@pytest.mark.soak
@newest_only
def test_two_overwrites_are_not_mixed(engine: HudiEngine, tmp_path: Path) -> None:
    table = Scene().create(tmp_path)
    table.upsert(as_table([trip("old"), trip("other", city="Rome")]))
    theirs, ours = trip("hudi", fare=1.0), trip("rli", fare=2.0)
    is_refused, is_between = False, False
    while not is_between:
        try:
            with paused_in_a_write(engine, table, theirs, "insert_overwrite") as is_between:
                if is_between:
                    table.overwrite_partitions(as_table([ours]))
        except HudiError as error:
            assert "HoodieWriteConflictException" in str(error)  # noqa: PT017  (else the overwrite of Hudi was the last one)
            is_refused = True
    expected = [ours if is_refused else theirs, trip("other", city="Rome")]
    assert sorted_rows(table.read()) == sorted_rows(expected)
    assert sorted_rows(without_meta_columns(engine.read(table.location))) == sorted_rows(expected)
    assert table.verify_index().agrees
    table.close()
