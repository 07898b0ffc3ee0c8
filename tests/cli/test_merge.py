"""Change batches in files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Rli

pytestmark = pytest.mark.invariant("P46")

EVENTS = [
    {"before": None, "after": {"id": "007", "email": "a@b"}, "source": {"lsn": 1}, "op": "r", "ts_ms": 1},
    {"before": None, "after": {"id": "8", "email": "c@d"}, "source": {"lsn": 2}, "op": "c", "ts_ms": 2},
    {"before": {"id": "8", "email": "c@d"}, "after": None, "source": {"lsn": 4}, "op": "d", "ts_ms": 4},
    None,
    {"before": {"id": "8", "email": "c@d"}, "after": {"id": "8", "email": "e@f"}, "source": {"lsn": 3}, "op": "u"},
]


def test_operation_columns_of_files(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "changes.csv").write_text(
        "id,city,ts,fare,kind\n007,Rome,3,12,u\nk2,,4,,D\nk9,Oslo,3,1.5,insert\nnobody,,3,,delete\n"
    )
    told = rli("merge", trips, "changes.csv", "--op", "kind", "--dry-run", "--json").json
    done = rli("merge", trips, "changes.csv", "--op", "kind", "--transaction", "cdc:1", "--json").json
    for result in (told, done):
        counts = [result[name] for name in ("inserted", "updated", "moved", "deleted", "unchanged")]
        assert counts == [1, 0, 1, 1, 1]
    assert rli("merge", trips, "changes.csv", "--op", "kind", "--transaction", "cdc:1", "--json").json["repeated"]
    assert {row["id"]: row["city"] for row in rli("read", trips, "--json").json} == {
        "007": "Rome",
        "k3": "Oslo",
        "k9": "Oslo",
    }


def test_debezium_events_of_files(rli: Rli, tmp_path: Path) -> None:
    rli("create", "users", "--record-key", "id", "--ordering", "lsn")
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, EVENTS)))
    done = rli("merge", "users", "events.jsonl", "--json").json
    assert (done["inserted"], done["unchanged"], done["duplicates"]) == (1, 1, 2)
    pq.write_table(pa.Table.from_pylist([event for event in EVENTS if event is not None]), tmp_path / "events.parquet")
    assert rli("merge", "users", "events.parquet", "--json").json["instant"] is None
    assert rli("read", "users", "--json").json == [{"id": "007", "email": "a@b", "lsn": 1}]


def test_wrong_batches_of_files(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "changes.csv").write_text("id,city,ts,fare,kind\n007,Rome,3,12,t\n")
    assert "a truncate is no change of a record" in rli("merge", trips, "changes.csv", "--op", "kind", status=2).err
    assert "no column tells" in rli("merge", trips, "changes.csv", status=2).err
    assert "column=what" in rli("merge", trips, "changes.csv", "--op", "what", status=2).err
