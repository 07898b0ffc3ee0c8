"""The setting by which new records go to log files, on the command line."""

from __future__ import annotations

from pathlib import Path

import rli as library
from tests.cli.conftest import Rli
from tests.support.tables import records, turn_into_foreign_commit


def test_setting_changes_and_shows(tmp_path: Path, rli: Rli) -> None:
    path = str(tmp_path / "t")
    rli("create", path, "--record-key", "id", "--type", "merge-on-read", "--option", "log_inserts=true")
    assert rli("table-type", path, "--no-log-inserts", "--json").json["log_inserts"] is False
    assert "new records: log files" in rli("table-type", path, "--log-inserts").out
    assert library.open_table(path).settings.log_inserts


def test_doctor_warns_beside_other_engines(tmp_path: Path, rli: Rli) -> None:
    table = library.create_table(
        tmp_path / "t", record_key="id", partition_by="city", table_type="merge_on_read", log_inserts=True
    )
    table.insert(records(("a", "x", 1, 1.0)))
    turn_into_foreign_commit(table, table.insert(records(("b", "x", 1, 1.0))).instant or "")
    found = {one["check"]: one for one in rli("doctor", table.location, "--json").json["findings"]}
    assert "second time" in found["log inserts"]["detail"]
    assert "--no-log-inserts" in found["log inserts"]["advice"]
