"""rli index create, list and drop, on columns."""

from __future__ import annotations

from rli import open_table
from rli.table.table import opened_table
from tests.cli.conftest import Rli


def test_indexes_come_and_go(rli: Rli, trips: str) -> None:
    made = rli("index", "create", trips, "by_fare", "--on", "fare", "--using", "column_stats", "--json").json
    assert made["state"] == "valid"
    assert "by_fare" in rli("index", "list", trips).out
    assert [index["columns"] for index in rli("index", "list", trips, "--json").json] == [["fare"]]
    assert rli("index", "drop", trips, "by_fare", "--json").json == {"name": "by_fare", "state": "dropped"}
    assert rli("index", "list", trips, "--json").json == []
    assert "by_fare" in rli("index", "drop", trips, "by_fare", status=2).err
    # The index of the record keys is still there.
    assert rli("lookup", trips, "007").status == 0


def test_drops_tell_what_is_left(rli: Rli, trips: str) -> None:
    rli("index", "create", trips, "by_fare", "--on", "fare", "--using", "column_stats")
    with opened_table(open_table(trips)).service("long service", patience=60):
        shown = rli("index", "drop", trips, "by_fare", "--timeout", "0").out
    assert "dropping" in shown
    assert "dropped" not in shown
    assert rli("index", "run", trips).status == 0
    assert rli("index", "list", trips, "--json").json == []
    assert "NAME" in rli("index", "drop", trips, "--timeout", "1", status=2).err


def test_scheduled_indexes_are_run(rli: Rli, trips: str) -> None:
    scheduled = ("index", "create", trips, "by_fare", "--on", "fare", "--expr", "round(fare)", "--async", "--json")
    made = rli(*scheduled).json
    assert (made["state"], made["using"], made["expression"]) == ("building", "column_stats", "round(fare)")
    assert "round(fare)" in rli("index", "list", trips).out
    assert [index["state"] for index in rli("index", "run", trips, "--json").json] == ["valid"]
    assert "no index is scheduled" in rli("index", "run", trips).err
    assert rli("index", "drop", trips, "by_fare").status == 0
