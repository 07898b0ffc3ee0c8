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

    def told() -> list[tuple[str, str]]:
        found = rli("doctor", table.location, "--json").json["findings"]
        return [(one["verdict"], f"{one['detail']} {one['advice']}") for one in found if one["check"] == "log inserts"]

    table.set_log_inserts(False)
    [(verdict, words)] = told()
    assert (verdict, "second time" in words, "rli compact" in words) == ("warning", True, True)
    table.metadata.enable(["record_index"])
    [(verdict, words)] = told()
    assert (verdict, "need hoodie.index.type=RECORD_INDEX" in words) == ("ok", True)
    table.compact()
    assert not told()
