"""Log files that rli writes are read by others as those of Hudi are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rli.hudi.log_file.avro_block import avro_block, avro_records
from rli.hudi.log_file.delete_block import delete_block
from rli.hudi.log_file.delete_records import deleted_records
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.parquet_block import parquet_block, parquet_records
from rli.hudi.log_file.reader import LogBlock
from rli.hudi.log_file.rollback_block import rollback_block, undone_instant
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, with_hudi
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.hudi_tables import unzip_hudi_table
from tests.support.log_blocks import blocks_of
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows

TABLES: Final = (
    "sample_table/mor/parquet/v6_complexkeygen_hivestyle",
    "sample_table/mor/parquet/v6_nonpartitioned_rollback",
    "sample_table/mor/avro/v9_txns_simple_nometa",
    "quickstart_trips_table/mor/avro/v6_trips_8i3d",
)
BOTH_FORMATS: Final = TABLES[1:3]


def _written(block: LogBlock, *, swaps: bool) -> bytes:
    """The block as rli writes it; with ``swaps``, Avro records become Parquet, and the other way round."""
    instant, schema = block.header(Header.INSTANT), block.headers.get(Header.SCHEMA)
    if block.kind is BlockKind.COMMAND:
        return rollback_block(instant, undone_instant(block))
    if block.kind is BlockKind.DELETE:
        return b"".join(delete_block(instant, deleted, schema) for deleted in deleted_records(block))
    is_avro = block.kind is BlockKind.AVRO
    records = list(avro_records(block) if is_avro else parquet_records(block))
    write = avro_block if is_avro is not swaps else parquet_block
    return write(instant, records, block.header(Header.SCHEMA))


def _write_again(table: Path, *, swaps: bool) -> None:
    """Replace each log file by what rli writes for its blocks."""
    logs = [path for path in table.rglob(".*.log.*") if ".hoodie" not in path.parts and path.suffix != ".crc"]
    assert logs
    for path in logs:
        path.write_bytes(b"".join(_written(block, swaps=swaps) for block in blocks_of(path.read_bytes())))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("swaps", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_hudi_rs_reads_written_logs(name: str, swaps: bool, tmp_path: Path) -> None:  # noqa: FBT001  (a parameter)
    table = unzip_hudi_table(name, tmp_path)
    before = sorted_rows(read_with_hudi_rs(table))
    _write_again(table, swaps=swaps)
    assert sorted_rows(read_with_hudi_rs(table)) == before


@pytest.mark.soak
@pytest.mark.hudi
@pytest.mark.spark
@pytest.mark.slow
@with_hudi(NEWEST, in_soak=("1.0.2",))
def test_hudi_reads_written_logs(engine: HudiEngine, tmp_path: Path) -> None:
    for number, name in enumerate(BOTH_FORMATS):
        table = unzip_hudi_table(name, tmp_path / str(number))
        before = sorted_rows(without_meta_columns(engine.read(table)))
        _write_again(table, swaps=True)
        assert sorted_rows(without_meta_columns(engine.read(table))) == before
