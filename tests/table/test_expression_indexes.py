"""Indexes on expressions: each commit keeps them, and what they leave is what the full scan finds."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli import (
    ColumnIndexState,
    IndexExistsError,
    InvalidInputError,
    PruningStep,
    SchemaError,
    Table,
    create_table,
    open_table,
)
from rli.filters.filter import Filter
from rli.hudi.metadata.log_changes import LogChanges
from rli.storage import StoredFile
from tests.support.soak import FACTOR
from tests.support.tables import records, turn_into_version_9

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("n", pa.int64()),
        ("f", pa.float64()),
    ]
)
NAMES: Final = [None, "", "a", "A", "Ab", "STRASSE", "straße", "ΟΔΟΣ", "İ", "z" * 1_100, "\0", "é"]
NUMBERS: Final = [None, 0, -1, 7, 2**62, -(2**63)]
FLOATS: Final = [None, 0.0, -0.0, 1.5, float("nan"), float("inf"), -2.5]
INDEXES: Final = {
    "hour": ("at", "hour(at)", None),
    "day": ("at", "date_trunc('day', at)", None),
    "text": ("at", "date_format(at, 'yyyy-MM-dd HH')", None),
    "low": ("name", "lower(name)", None),
    "up": ("name", "upper(name)", "bloom_filters"),
    "part": ("name", "substring(name, 1, 2)", None),
    "size": ("name", "length(name)", "bloom_filters"),
    "twice": ("n", "n * 2", None),
    "half": ("f", "f / 2", None),
    "secs": ("ts", "from_unixtime(ts, 'mm')", None),
}
FILTERS: Final = (
    "hour(at) = {hour}",
    "hour(at) < {hour} and name is not null",
    "hour(at) in ({hour}, 23) or f > 1",
    "not (hour(at) >= {hour})",
    "hour(at) is null",
    "date_trunc('day', at) = timestamp '2024-05-0{digit}'",
    "date_format(at, 'yyyy-MM-dd HH') > '2024-05-0{digit} 1'",
    "lower(name) = {name}",
    "lower(name) in ({name}, 'a') and id > 'k1'",
    "upper(name) = upper({name})",
    "upper(name) in ('A', 'İ', 'STRASSE')",
    "upper(name) is null",
    "substring(name, 1, 2) >= {name}",
    "length(name) = {digit}",
    "length(name) != 2",
    "f / 2 > 0.5",
    "f / 2 = 0",
    "f / 2 != 0.75",
    "from_unixtime(ts, 'mm') = '0{digit}'",
    "coalesce(hour(at), 5) = 5",
    "hour(at) + 1 = {hour}",
)
EXPRESSIONS: Final = (
    pc.hour(pc.field("at")) == 5,
    (pc.hour(pc.field("at")) > 20) | (pc.utf8_lower(pc.field("name")) == "a"),
    pc.utf8_length(pc.field("name")).isin([1, 2]),
    ~(pc.hour(pc.field("at")) == 5),
    pc.hour(pc.field("at")).is_null(),
)


def new_table(folder: Path, version: int = 6, table_type: str = "copy_on_write") -> Table:
    table = create_table(folder, record_key="id", partition_by="city", ordering="ts", table_type=table_type)
    if version == 9:
        turn_into_version_9(table)
    return table


def at(hour: int, day: int = 1) -> datetime:
    return datetime(2024, 5, day, hour, 30, tzinfo=UTC)


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return records(*((*row, *[None] * (len(SCHEMA) - len(row))) for row in given), schema=SCHEMA)


def hourly(table: Table) -> None:
    given = [(f"k{hour}-{day}", f"c{hour}", 1, at(hour, day)) for hour in range(1, 12) for day in (1, 9)]
    table.insert(rows(*given))


@pytest.mark.parametrize("version", [6, 9])
def test_hour_skips_where_column_cannot(tmp_path: Path, version: int) -> None:
    table = new_table(tmp_path / "t", version)
    table.insert(rows(("k0", "c0", 1, at(0))))
    made = table.create_index("by_hour", on="at", expression="hour(at)")
    assert (made.state, made.using, made.expression) == (ColumnIndexState.VALID, "column_stats", "hour(at)")
    assert made.partition == ("expr_index_by_hour" if version == 9 else "rli_expr_index_by_hour")
    hourly(table)
    for filters in ("hour(at) = 7", pc.hour(pc.field("at")) == 7):
        pruned = table.scan(filters=filters).explain().files
        assert (pruned.total, pruned.pruned[PruningStep.EXPRESSION_INDEX], pruned.read) == (12, 11, 1)
        assert sorted(table.read(filters=filters)["id"].to_pylist()) == ["k7-1", "k7-9"]
    plain = "at between timestamp '2024-05-01 07:00:00' and timestamp '2024-05-09 07:00:00'"
    assert table.scan(filters=plain).explain().files.read == 11
    # Another process, and after a compaction of the metadata table.
    table.metadata.compact()
    assert open_table(table.location).scan(filters="hour(at) in (7, 9)").explain().files.read == 2
    assert table.metadata.verify() == ()
    table.drop_index("by_hour")
    assert table.indexes() == ()
    assert table.scan(filters="hour(at) = 7").explain().files.read == 12


def test_each_operation_keeps_an_index(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.insert(rows(("a", "x", 1, at(1)), ("b", "y", 1, at(2))))
    table.create_index("by_hour", on="at", expression="hour(at)")

    def found(hour: int) -> tuple[list[str], int]:
        filters = f"hour(at) = {hour}"
        return sorted(table.read(filters=filters)["id"].to_pylist()), table.scan(filters=filters).explain().files.read

    instant = table.upsert(rows(("a", "x", 2, at(5)))).instant or ""
    assert (found(1), found(5)) == (([], 0), (["a"], 1))
    table.rollback(instant)
    assert (found(1), found(5)) == ((["a"], 1), ([], 0))
    table.overwrite_partitions(rows(("c", "x", 3, at(8))))
    assert (found(1), found(8)) == (([], 0), (["c"], 1))
    table.update_where("id = 'c'", {"at": "timestamp '2024-05-01 09:00:00'"})
    assert (found(8), found(9)) == (([], 0), (["c"], 1))
    savepoint = table.timeline()[-1].time
    table.savepoint(savepoint)
    table.delete(["b"])
    table.cluster()
    table.clean()
    assert (found(2), found(9)) == (([], 0), (["c"], 1))
    table.restore(savepoint)
    assert (found(2), found(9)) == ((["b"], 1), (["c"], 1))
    assert table.indexes()[0].state is ColumnIndexState.VALID
    assert table.metadata.verify() == ()


@pytest.mark.parametrize(("version", "table_type"), [(6, "copy_on_write"), (9, "merge_on_read")])
def test_indexes_leave_what_a_scan_finds(tmp_path: Path, version: int, table_type: str) -> None:
    chance = random.Random(version)
    table = new_table(tmp_path / "t", version, table_type)
    table.insert(rows(("k0", "c0", 1)))
    for name, (column, expression, using) in INDEXES.items():
        table.create_index(name, on=column, using=using, expression=expression)
    for step in range(2 * FACTOR):
        table.upsert(
            rows(
                *(
                    (
                        f"k{chance.randrange(30)}", f"c{chance.randrange(4)}", step * 60,
                        chance.choice([None, at(chance.randrange(24), chance.randrange(1, 9))]),
                        chance.choice(NAMES), chance.choice(NUMBERS), chance.choice(FLOATS),
                    )
                    for _ in range(6)
                )
            )
        )  # fmt: skip
        require_same(table, chance)
    assert table.metadata.verify() == ()
    assert {index.state for index in table.indexes()} == {ColumnIndexState.VALID}


def require_same(table: Table, chance: random.Random) -> None:
    """Filters give what they give of all records in memory."""
    everything = table.read()
    named = [name for name in NAMES if name and "\0" not in name]
    for form in chance.sample(FILTERS, 6):
        name = f"'{chance.choice(named)}'"
        filters = form.format(hour=chance.randrange(24), digit=chance.randrange(1, 9), name=name)
        passes = Filter.of(filters, everything.schema)
        assert passes is not None
        assert ids(table.read(filters=filters)) == ids(everything.filter(passes.mask(everything))), filters
    for expression in chance.sample(EXPRESSIONS, 2):
        assert ids(table.read(filters=expression)) == ids(everything.filter(expression)), expression


def ids(found: pa.Table) -> list[str]:
    return sorted(found["id"].to_pylist())


def test_wrong_expressions_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    with pytest.raises(SchemaError, match="no columns yet"):
        table.create_index("i", on="at", expression="hour(at)")
    table.insert(rows(("a", "x", 1, at(1))))
    for using, expression, message in (
        ("secondary", "hour(at)", "no secondary index on an expression"),
        (None, "hour(nothing)", "does not have"),
        (None, "hour(at) + n", "over the indexed column alone"),
        (None, "5", "over the indexed column alone"),
        ("bloom_filters", "date_trunc('day', at) > timestamp '2024-01-01'", "cannot hold such values"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            table.create_index("i", on="at", using=using, expression=expression)
    table.create_index("i", on="at", expression="hour(at)")
    assert table.create_index("i", on="at", expression="HOUR( at )").state is ColumnIndexState.VALID
    with pytest.raises(IndexExistsError):
        table.create_index("i", on="at", expression="day(at)")


def test_filters_take_values_of_small_commits(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", ordering="ts", maintenance=False)
    ids = [f"k{number}" for number in range(300)]
    table.upsert(pa.table({"id": ids, "ts": [1] * 300, "name": [f"Name {key}" for key in ids]}))
    table.create_index("low", on="name", using="bloom_filters", expression="lower(name)")
    for ts in range(2, 6):
        names = [f"New {ts} {number}" for number in range(3)]
        table.upsert(pa.table({"id": ids[ts : ts + 3], "ts": [ts] * 3, "name": names}))
        for name in (*names, "Name k0", "Name k299"):
            assert table.read(filters=f"lower(name) = '{name.lower()}'")["name"].to_pylist() == [name]
        absent = table.scan(filters="lower(name) = 'nobody at all'").explain().files
        assert absent.pruned[PruningStep.EXPRESSION_INDEX] == absent.total
    assert table.metadata.verify() == ()


def test_filters_are_sought_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a commit reads of the filters before it does not grow with the log files of the metadata table."""
    table = create_table(tmp_path / "t", record_key="id", ordering="ts", maintenance=False)
    table.upsert(pa.table({"id": ["a", "b"], "ts": [1, 1], "name": ["Ann", "Bo"]}))
    table.create_index("low", on="name", using="bloom_filters", expression="lower(name)")
    read: list[str] = []
    read_log = LogChanges.read

    def noted(self: LogChanges, source: BinaryIO, file: StoredFile) -> None:
        read.append(file.path)
        read_log(self, source, file)

    monkeypatch.setattr(LogChanges, "read", noted)
    counts = []
    for ts in range(2, 8):
        read.clear()
        table.upsert(pa.table({"id": ["a"], "ts": [ts], "name": [f"Ann {ts}"]}))
        counts.append(sum("rli_expr_index_low" in path for path in read))
    # The first commit behind the build finds its filter in a base file.
    assert counts == [0, 1, 1, 1, 1, 1]
    assert table.read(filters="lower(name) = 'ann 7'")["name"].to_pylist() == ["Ann 7"]


def test_a_value_that_fails_is_read(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.insert(rows(("a", "x", 1, None, None, 1)))
    table.create_index("twice", on="n", expression="n * 2")
    table.insert(rows(("b", "y", 1, None, None, 2**62), ("c", "z", 1, None, None, 5)))
    assert table.scan(filters="n * 2 = 10").explain().files.read == 2
    assert ids(table.read(filters="case when n < 100 then n * 2 end = 10")) == ["c"]


def test_index_covers_times_beyond_python(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.insert(rows(("a", "x", 1, at(1))))
    table.create_index("day", on="at", expression="date_trunc('day', at)")
    table.create_index("same", on="at", using="bloom_filters", expression="coalesce(at, at)")
    far = pa.scalar(2**60, SCHEMA.field("at").type)
    table.insert(rows(("b", "y", 1)).set_column(3, SCHEMA.field("at"), pa.repeat(far, 1)))
    column = pc.field("at")
    for value in (pc.floor_temporal(column, unit="day"), pc.coalesce(column, column), column):
        assert ids(table.read(filters=value > at(2))) == ["b"]
        assert ids(table.read(filters=value == far)) == ids(table.read().filter(value == far))
    assert table.scan(filters="date_trunc('day', at) > timestamp '2024-05-02'").explain().files.read == 1


def test_statistics_of_column_stay_listed(tmp_path: Path) -> None:
    """An index on an expression over a column does not stand for the statistics of the column itself."""
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", metadata=["column_stats"])
    table.upsert(records(("a", "x", 1, 1.0)))
    [statistics] = table.indexes()
    table.create_index("next", on="ts", expression="ts + 1")
    assert next(index for index in table.indexes() if index.name == statistics.name).columns == statistics.columns
    table.drop_index(statistics.name)
    assert [index.name for index in table.indexes()] == ["next"]
    assert table.metadata.verify() == ()
