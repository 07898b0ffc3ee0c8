"""Of rows of one key, their content decides: the same in every order and in every batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rli
from rli.model import Scope
from rli.table.table import opened_table
from rli.view.given_keys import table_keys
from rli.write.rows.keying import FirstRecordKeying, RecordKeying
from rli_spark.requests.tie_breaker import Tied


@pytest.mark.parametrize("kind", [RecordKeying, FirstRecordKeying])
def test_same_row_wins_in_every_order(kind: type[RecordKeying], tmp_path: Path) -> None:
    with rli.create_table(tmp_path / "table", record_key="id", partition_by="city", ordering="ts") as table:
        keying = Tied(kind(table_keys(opened_table(table).definition), "ts", Scope.GLOBAL))
    rows = pa.table({"id": ["k", "k", "k", "other"], "city": ["a"] * 4, "ts": [1, 1, 1, 1], "n": [3, 1, 2, 7]})
    kept = {
        tuple(sorted(keying.distinct(keying.keyed(rows.take(order))).column("n").to_pylist()))
        for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1])
    }
    assert len(kept) == 1
