"""Merge-on-read tables that rli writes: Apache Hudi and hudi-rs read the same records, write on, and compact our log files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from rli import CommitResult, Query, Step, Table, TableType, create_table, open_table
from rli.table.table import opened_table
from rli.view.registration import save_settings
from tests.crash.writes import FIRST, index_url, open_copy, write_and_die_at_step
from tests.support.children import was_killed
from tests.support.histories import Layout
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_options import BY_RECORD_INDEX, NEWEST, table_options, with_hudi
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.soak import FACTOR, in_ci
from tests.support.tables import by_key, check_stored, records, turn_into_version_9

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

METADATA: Final = ("files", "column_stats", "record_index")
WRITES: Final[tuple[Callable[[Table], CommitResult], ...]] = (
    lambda table: table.upsert(records(("k0", "x", 11, 1000.0), ("k1", "y", 5, 0.0), ("k2", "x", 10, 777.0))),
    lambda table: table.delete(["k3", "k4"]),
    lambda table: table.upsert(records(("k5", "x", 12, 5.0), ("k6", "x", 12, 6.5), ("n1", "y", 1, 1.0))),
    lambda table: table.delete_where("id = 'k8'"),
    lambda table: table.update_where("id = 'k10'", {"ts": "ts - 5", "v": "v + 600"}),
    lambda table: table.upsert(records(("k12", "x", 30, 12.5)).drop_columns(["v"]), missing="keep"),
)


FORMATS: Final = [("parquet", "avro"), ("parquet",), ("avro",)]
"""Of the log files of a table."""
AS_OF: Final = 1 if FACTOR > 1 else 2
"""Of so many past states, Hudi reads one."""


def created(folder: Path, *, version: int, metadata: bool) -> Table:
    table = create_table(
        folder / "trips",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=TableType.MERGE_ON_READ,
        index="simple:",
        maintenance=False,
    )
    if version > 6:
        turn_into_version_9(table)
    table.bootstrap_index(f"lmdb://{folder}/index")
    if metadata:
        table.metadata.enable(METADATA)
    return table


def with_log_format(table: Table, log_format: str) -> Table:
    definition = opened_table(table).definition.reloaded()
    settings = definition.require_settings().model_copy(update={"log_format": log_format})
    save_settings(replace(definition, settings=settings))
    table.close()
    return open_table(table.location)


def options(engine: HudiEngine, version: int, **more: str) -> dict[str, str]:
    return {
        **table_options(Layout(partition_by=("city",))),
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.index.type": "SIMPLE",
        "hoodie.compact.inline": "false",
        **(STAY_ON_VERSION_6 if version == 6 and engine.version.startswith("1.") else {}),
        **more,
    }


def require_equal(engine: HudiEngine, table: Table, more: Mapping[str, str]) -> None:
    """Records of both queries, also by a filter, and those of hudi-rs."""
    for query in Query:
        mine = by_key(table.read(query=query).to_pylist())
        theirs = engine.read(table.location, {"hoodie.datasource.query.type": query, **more})
        assert by_key(theirs.select(["id", "city", "ts", "v"]).to_pylist()) == mine
    large = engine.read(table.location, more, "v > 500").select(["id", "city", "ts", "v"])
    assert by_key(large.to_pylist()) == by_key(table.read(filters="v > 500").to_pylist())
    assert by_key(read_with_hudi_rs(table.location).to_pylist()) == by_key(table.read().to_pylist())


@with_hudi("1.2.0", "0.15.0", in_soak=("1.0.2",))
@pytest.mark.parametrize("formats", in_ci(FORMATS[:1], of=FORMATS), ids="-".join)
def test_hudi_reads_and_compacts_logs(engine: HudiEngine, formats: Sequence[str], tmp_path: Path) -> None:
    # Of the tables, one has no metadata table.
    has_metadata = (engine.version == NEWEST) == (formats == ("avro",))
    check_reads_and_compactions(engine, 6, formats, tmp_path, metadata=has_metadata)


@pytest.mark.soak
@with_hudi("1.2.0")
def test_hudi_compacts_logs_of_version_9(engine: HudiEngine, tmp_path: Path) -> None:
    check_reads_and_compactions(engine, 9, FORMATS[0], tmp_path, metadata=True)


@with_hudi("1.2.0")
@pytest.mark.parametrize("version", in_ci([9], of=[6, 9]))
def test_hudi_knows_log_inserts(engine: HudiEngine, version: int, tmp_path: Path) -> None:
    """Hudi and hudi-rs read records that are in log files alone, and Hudi's record index finds their keys."""
    table = created(tmp_path, version=version, metadata=True)
    table.set_log_inserts(True)
    table.upsert(records(*((f"k{number}", "x", 10, float(number)) for number in range(20))))
    told = table.upsert(records(("zz", "x", 1, 600.0), ("aa", "x", 1, 700.0), ("k3", "x", 11, 0.5)))
    assert (told.inserted, told.files_appended) == (2, 1)
    table.delete(["zz", "k4"])
    reading = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    require_equal(engine, table, reading)
    named = engine.read(table.location, reading, "id = 'aa'")
    assert named["v"].to_pylist() == [700]
    compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    engine.write(table.location, records(("aa", "x", 2, 701.0)), options(engine, version, **BY_RECORD_INDEX))
    engine.write(
        table.location, records(("k5", "x", 30, 1.0)), options(engine, version, **BY_RECORD_INDEX, **compacting)
    )
    table.upsert(records(("bb", "x", 1, 800.0), ("aa", "x", 3, 702.0)))
    rows = by_key(table.read().to_pylist())
    assert (len(rows), rows["aa"]["v"], rows["bb"]["v"]) == (21, 702, 800)
    require_equal(engine, table, reading)
    check_stored(table)


def check_reads_and_compactions(
    engine: HudiEngine, version: int, formats: Sequence[str], tmp_path: Path, *, metadata: bool
) -> None:
    table = created(tmp_path, version=version, metadata=metadata)
    reading = {"hoodie.metadata.enable": str(metadata).lower(), "hoodie.enable.data.skipping": "true"}
    table.upsert(records(*((f"k{number}", "xy"[number % 2], 10, float(number)) for number in range(20))))
    instants = {}
    each = len(WRITES) // len(formats)
    for number, log_format in enumerate(formats):
        table = with_log_format(table, log_format)
        for write in WRITES[number * each :][:each]:
            instant = write(table).instant or ""
            instants[instant] = by_key(table.read().to_pylist())
    require_equal(engine, table, reading)
    for number, (instant, rows) in enumerate(instants.items()):
        assert by_key(table.read(as_of=instant).to_pylist()) == rows
        if number % AS_OF:
            continue
        as_of = engine.read(table.location, {"as.of.instant": instant, **reading})
        assert by_key(as_of.select(["id", "city", "ts", "v"]).to_pylist()) == rows
    check_stored(table)
    mine = by_key(table.read().to_pylist())
    given = options(engine, version, **{"hoodie.metadata.enable": str(metadata).lower()})
    changes = records(("k0", "x", 12, 1.0), ("k1", "y", 9, -1.0), ("k13", "y", 50, 13.5), ("new", "x", 1, 0.0))
    engine.write(table.location, changes, given)
    expected = {**mine, **by_key(changes.to_pylist()), "k1": mine["k1"]}
    assert by_key(table.read().to_pylist()) == expected
    require_equal(engine, table, reading)
    compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    engine.write(table.location, records(("k14", "x", 50, 14.5)), {**given, **compacting})
    expected["k14"] = {"id": "k14", "city": "x", "ts": 50, "v": 14.5}
    assert by_key(table.read().to_pylist()) == expected
    require_equal(engine, table, reading)
    table.upsert(records(("k14", "x", 51, 15.5), ("new", "x", 2, 2.0)))
    table.delete(["k13"])
    require_equal(engine, table, reading)
    assert table.verify_index().agrees
    assert table.metadata.verify() == ()


@with_hudi("1.2.0")
@pytest.mark.parametrize("version", in_ci([9], of=[6, 9]))
def test_hudi_undoes_killed_writers(engine: HudiEngine, version: int, tmp_path: Path) -> None:
    """Files of a dead write are in the table by then; Hudi knows them by their markers."""
    table = create_table(
        tmp_path / "table",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=TableType.MERGE_ON_READ,
        index=index_url(tmp_path),
        name="trips",
    )
    if version == 9:
        turn_into_version_9(table)
    table.upsert(records(*FIRST))
    before = by_key(table.read().to_pylist())
    table.close()
    assert was_killed(write_and_die_at_step, tmp_path, "upsert", Step.PROMOTED, 1)
    assert any((tmp_path / "table" / ".hoodie" / ".temp").rglob("*.marker.*"))
    added = records(("new", "x", 1, 1.0))
    given = options(engine, version, **{"hoodie.metadata.enable": "false"})
    engine.write(tmp_path / "table", added, given)
    require_equal(engine, open_copy(tmp_path), {"hoodie.metadata.enable": "false"})
    table = open_copy(tmp_path)
    assert by_key(table.read().to_pylist()) == {**before, **by_key(added.to_pylist())}
    table.upsert(records(("new", "x", 2, 2.0), ("a", "x", 9, 9.0)))
    require_equal(engine, table, {"hoodie.metadata.enable": "false"})
    assert table.verify_index().agrees
