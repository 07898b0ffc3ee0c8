"""Deletes by key alone, rollbacks of the last commit, reading as of an instant, and the timeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli import InstantNotFoundError, InvalidInputError, InvalidKeyError, SchemaError, SettingsError, Table
from tests.support.tables import check_stored, fingerprint, records, rows_of


def ids(table: Table, as_of: str | None = None) -> dict[str, float]:
    return {row["id"]: row["v"] for row in rows_of(table.read(as_of=as_of) if as_of else table)}


def test_delete_by_key_alone(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0), ("c", "y", 1, 3.0)))
    result = trips.delete(["a", "c", "nope", "a"])
    assert (result.deleted, result.unchanged) == (2, 1)
    assert result.files_rewritten == 2
    assert ids(trips) == {"b": 2.0}
    assert trips.lookup(["a", "b"]).column("partition_path").to_pylist() == [None, "y"]
    check_stored(trips)


def test_deleting_absent_keys_commits_nothing(trips: Table) -> None:
    assert trips.delete(["a"]).instant is None
    trips.upsert(records(("a", "x", 1, 1.0)))
    before = fingerprint(trips)
    assert trips.delete(["b", "c"]).instant is None
    assert trips.delete([]).instant is None
    assert fingerprint(trips) == before


@pytest.mark.parametrize("keys", [[""], ["a", ""], [None], ["a", None], [1]])
def test_unsupported_keys_are_refused(trips: Table, keys: list[str]) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    before = fingerprint(trips)
    with pytest.raises(InvalidKeyError):
        trips.delete(keys)
    assert fingerprint(trips) == before


def test_single_string_is_no_key_list(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    for call in (trips.delete, trips.lookup):
        with pytest.raises(InvalidInputError, match="a single string"):
            call("ab")
    assert len(ids(trips)) == 2


def test_deleted_key_is_reinserted_despite_ordering(trips: Table) -> None:
    trips.upsert(records(("a", "x", 9, 1.0)))
    trips.delete(["a"])
    assert trips.upsert(records(("a", "y", 1, 2.0))).inserted == 1
    assert ids(trips) == {"a": 2.0}
    check_stored(trips)


# Rollback --------------------------------------------------------------------------------------------------------


def test_a_rollback_restores_records_and_index(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0), ("c", "y", 1, 3.0), ("d", "x", 1, 4.0)))
    trips.delete(["d"])
    before, located = ids(trips), trips.lookup(["a", "b", "c", "d", "new"])
    result = trips.upsert(
        records(("a", "x", 2, 9.0), ("b", "z", 2, 9.0), ("c", "x", 2, 9.0), ("d", "y", 2, 9.0), ("new", "x", 2, 9.0))
    )
    assert (result.inserted, result.updated, result.moved) == (2, 1, 2)
    assert result.instant is not None
    rollback = trips.rollback(result.instant)
    assert ids(trips) == before
    assert trips.lookup(["a", "b", "c", "d", "new"]).equals(located)
    assert [(i.time, i.action) for i in trips.timeline()][-1] == (rollback, "rollback")
    assert result.instant not in [i.time for i in trips.timeline()]
    check_stored(trips)


def test_fully_rolled_back_table_is_writable(trips: Table) -> None:
    instants = [
        trips.upsert(records(("a", "x", number, 1.0), (f"n{number}", "y", 1, 1.0))).instant for number in range(3)
    ]
    for instant in reversed(instants):
        assert instant is not None
        trips.rollback(instant)
        check_stored(trips)
    assert trips.read().num_rows == 0
    assert trips.upsert(records(("a", "z", 0, 5.0))).inserted == 1
    assert ids(trips) == {"a": 5.0}
    check_stored(trips)


def test_rolling_back_a_delete(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 2.0)))
    result = trips.delete(["a", "b"])
    trips.rollback(result.instant or "")
    assert ids(trips) == {"a": 1.0, "b": 2.0}
    check_stored(trips)


def test_only_last_commit_is_rolled_back(trips: Table) -> None:
    first = trips.upsert(records(("a", "x", 1, 1.0))).instant
    second = trips.upsert(records(("a", "x", 2, 2.0))).instant
    before = fingerprint(trips)
    for instant in (first, "20200101000000000", "nonsense"):
        with pytest.raises(InstantNotFoundError, match=f"last={second}"):
            trips.rollback(instant or "")
    assert fingerprint(trips) == before


def test_new_table_refuses_rollback(trips: Table) -> None:
    with pytest.raises(InstantNotFoundError, match="last=none"):
        trips.rollback("20200101000000000")


def test_a_rollback_takes_a_column_back(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    wider = records(("b", "x", 1, 1.0)).append_column("extra", pa.array([7]))
    instant = trips.upsert(wider).instant
    trips.rollback(instant or "")
    assert "extra" not in trips.read().column_names
    text = records(("b", "x", 1, 1.0)).append_column("extra", pa.array(["text"]))
    trips.upsert(text)
    assert {row["id"]: row["extra"] for row in rows_of(trips)} == {"a": None, "b": "text"}
    check_stored(trips)


# Reading ---------------------------------------------------------------------------------------------------------


def test_reading_as_of_an_instant(trips: Table) -> None:
    states = []
    for number in range(4):
        instant = trips.upsert(
            records(("a", "xyz"[number % 3], number, float(number)), (f"n{number}", "x", 1, 1.0))
        ).instant
        states.append((instant or "", ids(trips)))
    instant = trips.delete(["n1"]).instant
    states.append((instant or "", ids(trips)))
    for instant, state in states:
        assert ids(trips, instant) == state
    for before in ("20200101000000000", "2020-01-01"):
        with pytest.raises(InstantNotFoundError, match="had no commit at this time"):
            trips.read(as_of=before)
    assert ids(trips, "20990101000000000") == states[-1][1]
    moment = datetime.now(UTC) + timedelta(days=1)
    assert trips.read(as_of=moment).num_rows == len(states[-1][1])


@pytest.mark.parametrize("as_of", ["", "yesterday", "2024", "20241301000000000", "2024-13-01"])
def test_what_is_no_time_is_refused(trips: Table, as_of: str) -> None:
    with pytest.raises(SettingsError, match="not an instant"):
        trips.read(as_of=as_of)


def test_columns_and_filters(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 2, 2.0), ("c", "y", 3, 3.0)))
    assert trips.read(columns=["v", "id"]).column_names == ["v", "id"]
    assert trips.read(columns=["_hoodie_record_key", "_hoodie_partition_path"]).num_columns == 2
    assert trips.read(columns=[]).num_rows == 3
    assert trips.read().column_names == ["id", "city", "ts", "v"]
    assert rows_of(trips.read(columns=["id"], filters=pc.field("ts") > 1)) == [{"id": "b"}, {"id": "c"}]
    assert rows_of(trips.read(columns=["id"], filters=[("city", "=", "y"), ("v", "<", 2.5)])) == [{"id": "b"}]
    assert trips.read(filters=pc.field("_hoodie_partition_path") == "x").num_rows == 1
    assert trips.read(filters=[("id", "in", ["zz"])]).num_rows == 0


@pytest.mark.parametrize(
    ("columns", "filters", "named"),
    [
        (["nope"], None, "nope"),
        (None, [("nope", "=", 1)], "nope"),
        (None, pc.field("nope") == 1, "nope"),
        (None, [("id", "~", 1)], "~"),
        (None, pc.field("ts") == "text", "text|types"),
        (None, pc.field("id"), "types"),
    ],
)
def test_invalid_columns_and_filters_are_named(trips: Table, columns: object, filters: object, named: str) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    with pytest.raises(SchemaError, match=named):
        trips.read(columns=columns, filters=filters)  # type: ignore[arg-type]  # on purpose


def test_table_without_commits_reads_as_empty(trips: Table) -> None:
    assert trips.read().num_rows == 0
    assert trips.schema is None
    assert trips.timeline() == ()
    assert trips.lookup(["a"]).num_rows == 1
    check_stored(trips)
