"""Log files of rli tell where in the base file the records are that they change."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from rli import Table, TableType
from rli.hudi.log_file.base_rows import UNKNOWN, BaseRows
from rli.hudi.log_file.delete_records import behind_list, deleted_records
from rli.hudi.log_file.form import BlockKind
from rli.hudi.log_file.parquet_block import parquet_records
from rli.hudi.log_file.reader import LogFileReader
from rli.hudi.meta_columns import RECORD_KEY
from rli.table.table import opened_table
from tests.support.tables import by_key, records, turn_into_version_9


@pytest.fixture(params=[6, 9], ids="version-{}".format)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    made = rli.create_table(
        tmp_path / "trips",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=TableType.MERGE_ON_READ,
        index="global-simple:",
        maintenance=False,
    )
    if request.param > 6:
        turn_into_version_9(made)
    made.upsert(records(*((f"k{number:02}", "x", 10, float(number)) for number in range(40))))
    yield made
    made.close()


def told(table: Table) -> list[tuple[str, list[str], BaseRows | None]]:
    """Of each block the name of the slice's base file, the keys, and their positions."""
    found = []
    for file_slice in opened_table(table).snapshot().slices.values():
        assert file_slice.base is not None
        for log in file_slice.logs:
            with Path(table.location, log.path).open("rb") as file:
                for block in LogFileReader(file, log.size).blocks():
                    if block.kind is BlockKind.DELETE:
                        keys = [key for part in deleted_records(block) for key in part["record_key"].to_pylist()]
                        rows = BaseRows.from_tail(behind_list(block), len(keys))
                    else:
                        read = pa.Table.from_batches(parquet_records(block))
                        keys = read[RECORD_KEY].to_pylist()
                        rows = BaseRows.from_footer(read.schema.metadata, len(keys))
                    found.append((file_slice.base.path, keys, rows))
    return found


def require_positions(table: Table, blocks: int) -> None:
    listed = told(table)
    assert len(listed) == blocks
    for base, keys, rows in listed:
        assert rows is not None
        assert rows.file_name == posixpath.basename(base)
        stored = pq.read_table(Path(table.location, base), columns=[RECORD_KEY])[RECORD_KEY]
        assert stored.take(pa.array(rows.rows)).to_pylist() == keys


@pytest.mark.invariant("P56")
def test_each_block_tells_its_rows(table: Table) -> None:
    expected = by_key(table.read().to_pylist())
    for number, keys in enumerate((["k30", "k07"], ["k07", "k08"], ["k08"])):
        changed = records(*((key, "x", 11 + number, 1000.0 + number) for key in keys))
        table.upsert(changed)
        expected |= by_key(changed.to_pylist())
    table.delete(["k07", "k01", "k30"])
    expected = {key: row for key, row in expected.items() if key not in {"k07", "k01", "k30"}}
    require_positions(table, 4)
    assert by_key(table.read().to_pylist()) == expected
    # A compacted file has its records elsewhere.
    table.compact()
    table.upsert(records(("k39", "x", 20, 0.0)))
    table.delete(["k02"])
    require_positions(table, 2)
    expected |= by_key(records(("k39", "x", 20, 0.0)).to_pylist())
    del expected["k02"]
    assert by_key(table.read().to_pylist()) == expected


def test_new_records_have_no_position(tmp_path: Path) -> None:
    table = rli.create_table(
        tmp_path / "trips",
        record_key="id",
        ordering="ts",
        table_type=TableType.MERGE_ON_READ,
        index=f"lmdb://{tmp_path}/index",
        maintenance=False,
        log_inserts=True,
    )
    table.upsert(records(*((f"k{number:02}", "x", 10, float(number)) for number in range(40))))
    table.upsert(records(("k08", "x", 11, 0.0), ("new", "x", 11, 0.0)))
    table.upsert(records(("k09", "x", 12, 0.0), ("new", "x", 12, 1.0)))
    positions = [rows.rows.tolist() for _, _, rows in told(table) if rows is not None]
    assert [(UNKNOWN in one, len(one)) for one in positions] == [(True, 2), (True, 2)]
    found = by_key(table.read().to_pylist())
    assert (len(found), found["new"]["v"], found["k09"]["v"]) == (41, 1, 0)
    assert np.unique([*found]).size == 41
    table.close()
