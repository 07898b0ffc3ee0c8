from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import rli as library
from tests.cli.conftest import Rli


def records(ts: int) -> pa.Table:
    return pa.table({"id": [f"k{one}" for one in range(20)], "ts": [ts] * 20})


def test_doctor_warns_of_deep_slices(tmp_path: Path, rli: Rli) -> None:
    made = library.create_table(
        tmp_path / "own", record_key="id", ordering="ts", table_type="merge_on_read", maintenance=False
    )
    made.upsert(records(1))
    verdicts = []
    for ts in (2, 3):
        report = rli("doctor", made.location, "--json").json
        verdicts.append(next(one["verdict"] for one in report["findings"] if one["check"] == "log files"))
        made.upsert(records(ts))
    rli("compact", made.location, "--schedule")
    done = rli("compact", made.location, "--json").json
    assert (verdicts, done["file_groups"], done["log_files"]) == (["ok", "warning"], 1, 2)
    assert "type: merge-on-read" in rli("info", made.location).out
