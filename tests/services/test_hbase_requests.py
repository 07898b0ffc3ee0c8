"""How much a write asks of HBase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import rli
from rli_hbase.rows import Rows
from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table
from tests.support.tables import records

pytestmark = pytest.mark.docker


def test_upsert_reads_each_entry_once(hbase: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    read_rows = Rows.read

    def noted(self: Rows, rows: Sequence[bytes], columns: Sequence[bytes], batch: int) -> Iterator[Any]:
        read.extend(rows)
        return read_rows(self, rows, columns, batch)

    index = hbase_url(hbase, new_table(), batch=100)
    with rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=index) as table:
        table.upsert(records(*((f"k{n}", "x", 1, 1.0) for n in range(100, 350))))
        monkeypatch.setattr(Rows, "read", noted)
        updated = table.upsert(records(*((f"k{n}", "x", 2, 2.0) for n in range(100, 350))))
        assert (updated.updated, len(read)) == (250, 250)
        table.drop_index()
