"""``rli advise`` says which kind of index to choose, to people and to programs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Rli
from tests.support.advice import RATES


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was measured before."""
    monkeypatch.setattr("rli.advice.advise.calibration", lambda *_, **__: RATES)


def test_advice_for_people(rli: Rli, trips: str) -> None:
    lines = rli("advise", trips).out.splitlines()
    assert lines[0].startswith("choose ")
    *reasons, of_type = [line for line in lines if line.startswith("- ")]
    assert 3 <= len(reasons) <= 10
    assert "3 keys" in reasons[0]
    assert reasons[-1].startswith(f"- Change to it: rli index migrate {trips} --to '")
    # In a pipe the table has a line for each kind, with tabs.
    assert lines[len(reasons) + 1 :][:2] == ["table type copy-on-write", of_type]
    assert lines[len(reasons) + 3].split("\t")[0] == "index"
    assert any(line.startswith("global-simple:\t") for line in lines)


def test_advice_for_programs(rli: Rli, trips: str) -> None:
    found = rli("advise", trips, "--batch", "day2.csv", "--json").json
    assert set(found) == {"choice", "scope", "kinds", "table", "batch", "reasons", "table_type", "reason_of_type"}
    assert found["table_type"] == "copy_on_write"
    assert found["table"]["keys"] == 3
    assert (found["batch"]["keys"], found["batch"]["known"]) == (2, 1)
    assert {"url", "scope", "tag_seconds", "index_bytes", "obstacles"} <= set(found["kinds"][0])


def test_moved_records_need_global_index(rli: Rli, trips: str) -> None:
    found = rli("advise", trips, "--json").json
    assert found["table"]["commits"]["moved"] > 0
    assert found["scope"] == "global"


def test_files_without_a_table(rli: Rli) -> None:
    pq.write_table(pa.table({"id": ["a", "b"], "day": ["1", "2"]}), "events.parquet")
    found = rli("advise", "events.parquet", "--record-key", "id", "--partition-by", "day", "--json").json
    assert (found["table"]["is_table"], found["table"]["keys"], found["table"]["partitions"]) == (False, 2, 2)
    assert "record-key" in rli("advise", "events.parquet", status=2).err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere"], "nowhere"),
        (["trips", "--batch", "gone.csv"], "gone.csv"),
        (["trips", "--record-key", "id"], "record_key"),
        (["trips", "--scope", "town"], "town"),
    ],
)
def test_wrong_input_is_named(rli: Rli, trips: str, arguments: list[str], named: str) -> None:
    assert trips == "trips"
    assert named in rli("advise", *arguments, status=2).err


def test_batch_without_key_is_refused(rli: Rli, trips: str) -> None:
    Path("batch.jsonl").write_text(json.dumps({"city": "Oslo"}) + "\n")
    assert "id" in rli("advise", trips, "--batch", "batch.jsonl", status=2).err
