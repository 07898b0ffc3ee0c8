"""rli delete --where and rli update."""

from __future__ import annotations

from tests.cli.conftest import Rli


def test_delete_where_prints_the_receipt(rli: Rli, trips: str) -> None:
    told = rli("delete", trips, "--where", "fare > 10", "--dry-run", "--json").json
    assert (told["deleted"], told["instant"], told["receipt"]) == (1, None, None)
    shown = rli("delete", trips, "--where", "fare > 10", "--transaction", "gdpr:1").out
    again = rli("delete", trips, "--where", "fare > 10", "--transaction", "gdpr:1", "--json").json
    assert (again["deleted"], again["repeated"], again["receipt"]["keys"]) == (1, True, ["007"])
    assert "still held" in shown
    assert all(name in shown.replace("\n", "") for name in again["receipt"]["files"])
    assert rli("read", trips, "--where", "fare > 10", "--json").json == []


def test_update_sets_columns(rli: Rli, trips: str) -> None:
    before = {row["id"]: row for row in rli("read", trips, "--json").json}
    done = rli("update", trips, "--where", "fare > 10", "--set", "fare=fare * 2", "--set", "city = city", "--json").json
    assert (done["updated"], done["receipt"]["keys"]) == (1, [])
    after = {row["id"]: row for row in rli("read", trips, "--json").json}
    assert after == before | {"007": before["007"] | {"fare": before["007"]["fare"] * 2}}
    assert rli("timeline", trips, "--json").json[-1]["updated"] == 1


def test_wrong_conditions_change_nothing(rli: Rli, trips: str) -> None:
    before = rli("timeline", trips, "--json").json
    assert "either keys or a condition" in rli("delete", trips, "k2", "--where", "true", status=2).err
    assert "not understood" in rli("delete", trips, "--where", "fare >", status=2).err
    assert "not a column and its value" in rli("update", trips, "--where", "true", "--set", "fare", status=2).err
    assert "keeps its key" in rli("update", trips, "--where", "true", "--set", "id='x'", status=2).err
    assert rli("timeline", trips, "--json").json == before
