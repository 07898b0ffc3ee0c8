"""The files of a metadata table have one Avro schema, that of the table's version: hudi-rs reads no others together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastavro.schema import parse_schema, to_parsing_canonical_form

from rli.hudi.hfile.reader import HFileReader
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.timeline.avro_files import parsed_schema
from tests.support.log_blocks import blocks_of
from tests.support.metadata_tables import differences
from tests.table.test_metadata_upkeep import WRITES, opened


def _schemas(table: Path) -> Iterator[str]:
    for file in (table / METADATA_FOLDER).rglob("*"):
        if file.suffix == ".hfile":
            with file.open("rb") as source:
                yield HFileReader(source, file.stat().st_size).info["schema"].decode()
        elif ".log." in file.name:
            yield from (
                block.header(Header.SCHEMA) for block in blocks_of(file.read_bytes()) if block.kind is BlockKind.HFILE
            )


def _forms(table: Path) -> set[str]:
    return {to_parsing_canonical_form(parse_schema(parsed_schema(schema))) for schema in _schemas(table)}


@pytest.mark.parametrize("name", ["v9", "v8"])
def test_writes_keep_the_schema(name: str, tmp_path: Path) -> None:
    table, path = opened(name, tmp_path)
    by_hudi, rows = _forms(path), table.read()
    for write in WRITES[:4]:
        write(table, rows)
    table.rollback("last")
    assert _forms(path) == by_hudi
    assert table.metadata.compact().instant is not None
    assert _forms(path) == by_hudi
    assert differences(path) == []


@pytest.mark.parametrize("name", ["v9", "v8"])
def test_births_have_the_schema(name: str, tmp_path: Path) -> None:
    table, path = opened(name, tmp_path)
    by_hudi = _forms(path)
    table.metadata.disable()
    table.metadata.enable(["files", "column_stats", "bloom_filters", "record_index"])
    assert _forms(path) == by_hudi
    assert differences(path) == []
