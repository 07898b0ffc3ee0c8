"""Secondary indexes: each commit keeps them, and what they find is what the full scan finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli import (
    ColumnIndexState,
    IndexExistsError,
    InvalidInputError,
    PruningStep,
    SchemaError,
    Step,
    Table,
    UnsupportedTableError,
    create_table,
    open_table,
)
from rli.hudi.metadata.keys import split_secondary_key
from rli.table.table import opened_table
from tests.support.metadata_tables import metadata_reader, state_before_later_commits
from tests.support.soak import FACTOR
from tests.support.tables import records, turn_into_version_9

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("email", pa.string()),
        ("n", pa.int32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
STRINGS: Final = [None, "", "a", "a$", "$a", "a$b", "a\\", "\\$", "\0", "a\0", "ä", "😀", "a@b", "A@b"]
NUMBERS: Final = [None, -1, 0, 1, 10, 2**31 - 1, -(2**31)]
DAYS: Final = [None, -364, 0, 19724]
MOMENTS: Final = [None, -1, 0, 1_717_156_800_123_456]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return new_table(tmp_path / "t")


def new_table(folder: Path) -> Table:
    table = create_table(folder, record_key="id", partition_by="city", ordering="ts")
    turn_into_version_9(table)
    return table


def rows(*given: tuple[Any, ...]) -> pa.Table:
    padded = [(*row, *[None] * (len(SCHEMA) - len(row))) for row in given]
    return records(*padded, schema=SCHEMA)


def entries(table: Table, partition: str) -> list[tuple[str | None, str]]:
    reader = metadata_reader(Path(table.location))
    keys = [key.decode() for cells in reader.scan(partition) for key in cells["key"].to_pylist()]
    return sorted(map(split_secondary_key, keys), key=repr)


def require_same(table: Table) -> None:
    """The index on ``email`` has the entries of the records, and no others."""
    stored = [(row["email"], row["id"]) for row in table.read().to_pylist()]
    assert entries(table, "secondary_index_by_email") == sorted(stored, key=repr)
    assert table.metadata.verify() == ()


def test_all_operations_keep_the_index(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b"), ("b$", "y", 1, "q$\\"), ("c", "x", 1, None), ("d", "y", 1, "")))
    assert table.create_index("by_email", on="email").state is ColumnIndexState.VALID
    require_same(table)
    steps: list[Callable[[], object]] = [
        lambda: table.upsert(rows(("a", "x", 2, "new"), ("e", "z", 1, "a@b"))),
        # A move, and a move with another value.
        lambda: table.upsert(rows(("b$", "x", 2, "q$\\"), ("d", "z", 2, "d"))),
        # Too late.
        lambda: table.upsert(rows(("a", "x", 1, "late"))),
        lambda: table.merge(
            rows(("a", "x", 3, "again"), ("c", "x", 9, None)).append_column("op", pa.array(["u", "d"])), op="op"
        ),
        lambda: table.delete(["d", "nobody"]),
        lambda: table.insert(rows(("d", "x", 5, "back"))),
        table.cluster,
        lambda: table.update_where("id = 'e'", {"email": "'e'"}),
        lambda: table.delete_where("id = 'e'"),
        table.metadata.compact,
        lambda: table.overwrite_partitions(rows(("o", "x", 5, "over"), ("a", "x", 9, "again"))),
        lambda: table.clean(keep_commits=1),
        lambda: table.upsert(rows(*((f"k{number}", "x", 1, f"{number % 7}") for number in range(100)))),
    ]
    for step in steps:
        step()
        require_same(table)
    assert table.history()[-1].operation == "UPSERT"


def test_log_files_keep_the_index(tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type="merge_on_read",
        maintenance=False,
    )
    turn_into_version_9(table)
    table.insert(rows(("a", "x", 1, "a@b"), ("b$", "x", 1, None), ("c", "y", 1, "c")))
    table.create_index("by_email", on="email")
    assert table.upsert(rows(("a", "x", 2, "new"), ("b$", "x", 2, "q$\\"))).files_appended == 1
    table.update_where("id = 'c'", {"email": "'d'", "ts": "ts + 1"})
    table.upsert(rows(("a", "y", 3, "moved"), ("e", "z", 1, "new")))
    table.delete(["c"])
    assert table.compact().file_groups
    table.upsert(rows(("e", "z", 2, "again")))
    everything = table.read().to_pylist()
    assert {*entries(table, "secondary_index_by_email")} >= {(row["email"], row["id"]) for row in everything}
    for value in ("a@b", "new", "q$\\", "moved", "again", "c", "d"):
        expected = sorted(row["id"] for row in everything if row["email"] == value)
        assert sorted(table.get(where={"email": [value]})["id"].to_pylist()) == expected, value
    # The file of the new record has no log file.
    assert table.scan(filters="email = 'nobody'").explain().files.pruned[PruningStep.SECONDARY_INDEX] >= 1
    assert table.indexes()[0].state is ColumnIndexState.VALID
    assert [found for found in table.metadata.verify() if found.partition.startswith("secondary")] == []


def test_undone_commits_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))
    kept = table.savepoint()
    table.create_index("by_email", on="email")
    undone = table.upsert(rows(("a", "x", 2, "new"), ("c", "y", 1, "a@b"))).instant
    assert undone is not None
    # The compaction merges the entries of the commit.
    table.metadata.compact()
    table.rollback(undone)
    assert table.read(filters="email = 'a@b'")["id"].to_pylist() == ["a"]
    assert table.read(filters="email = 'new'").num_rows == 0
    table.delete(["a"])
    table.metadata.compact()
    table.restore(kept)
    assert table.read(filters="email = 'a@b'")["id"].to_pylist() == ["a"]
    assert table.indexes()[0].state is ColumnIndexState.VALID
    assert table.metadata.verify() == ()


@pytest.mark.parametrize("seed", range(1 * FACTOR))
def test_indexed_answers_equal_the_scan(table: Table, seed: int) -> None:
    chance = random.Random(seed)

    def some_rows(count: int) -> pa.Table:
        ids = chance.sample(["", *STRINGS[2:], *(f"k{number}" for number in range(20))][1:], count)
        drawn = [(chance.choice(values) for values in (STRINGS, NUMBERS, DAYS, MOMENTS)) for _ in ids]
        return rows(
            *((key, chance.choice("xyz"), chance.randrange(9), *row) for key, row in zip(ids, drawn, strict=True))
        )

    table.upsert(some_rows(12))
    for column in ("email", "n", "day", "at"):
        table.create_index(f"by_{column}", on=column)
    for number in range(6):
        table.upsert(some_rows(5))
        table.delete(chance.sample(table.read()["id"].to_pylist(), 2))
        if number == chance.randrange(6):
            table.metadata.compact()
        everything = table.read().to_pylist()
        for column in ("email", "n", "day", "at"):
            present = [row[column] for row in everything if row[column] is not None]
            for values in ([chance.choice(present)], present[:3]):
                expected = sorted(row["id"] for row in everything if row[column] in values)
                assert sorted(table.get(where={column: values})["id"].to_pylist()) == expected, (column, values)
        for prefix in chance.sample([found for found in STRINGS if found], 3):
            expected = sorted(row["id"] for row in everything if (row["email"] or "").startswith(prefix))
            found = table.read(filters=pc.starts_with(pc.field("email"), prefix))
            assert sorted(found["id"].to_pylist()) == expected, prefix
        absent = table.scan(filters=[("email", "=", "nobody")]).explain().files
        assert absent.pruned[PruningStep.SECONDARY_INDEX] == absent.total
    assert table.metadata.verify() == ()


def test_records_are_found_by_value(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b", 1), ("b", "y", 1, "a@b", 2), ("c", "z", 1, "c", 2)))
    table.create_index("by_email", on="email")
    assert table.get(where={"email": ["a@b"], "n": [2]}, columns=["id"])["id"].to_pylist() == ["b"]
    assert table.get(["c", "a"], where={"email": ["a@b"]})["id"].to_pylist() == ["a"]
    assert table.get(where={"email": ["c", "nobody"]}, filters="n > 2").num_rows == 0
    read = table.scan(filters="email in ('c', 'nobody') and n < 9").explain().files
    assert (read.read, read.pruned[PruningStep.SECONDARY_INDEX]) == (1, 2)
    # Not said by the index.
    for where in ("email is null", "email > 'b'", "email = 'c' or n = 1", "email != 'a@b'"):
        assert PruningStep.SECONDARY_INDEX not in table.scan(filters=where).explain().files.pruned
    wrongs: list[Any] = [{"email": "a@b"}, {"email": [None]}, {"email": 7}, "email = 'a@b'"]
    for wrong in wrongs:
        with pytest.raises(InvalidInputError, match="email"):
            table.get(where=wrong)
    with pytest.raises(InvalidInputError, match="neither record keys nor values"):
        table.get(where={})
    with pytest.raises(SchemaError, match="nowhere"):
        table.get(where={"nowhere": ["a"]})
    with pytest.raises(SchemaError, match="int32"):
        table.get(where={"n": ["a"]})


def test_records_are_found_by_prefix(table: Table) -> None:
    given = (("a", "x", "ann@a.org"), ("b", "y", "an$"), ("c", "z", "bo@b.org"), ("d", "z", "an\\$b"), ("e", "q", None))
    table.upsert(rows(*((key, city, 1, email, 1) for key, city, email in given)))
    table.create_index("by_email", on="email")
    for filters, expected in {
        "email like 'an%'": ["a", "b", "d"],
        "email like 'an$%'": ["b"],
        "email like 'ann_a%' and n = 1": ["a"],
        "email like 'c%' and n = 1": [],
        "email between 'an' and 'ann@z'": ["a", "b", "d"],
    }.items():
        assert sorted(table.read(filters=filters)["id"].to_pylist()) == expected, filters
        found = table.scan(filters=filters).explain().files
        assert (found.read, found.pruned[PruningStep.SECONDARY_INDEX] > 0) == (len({*expected}), True), filters
    table.upsert(rows(("e", "q", 2, "ante", 1)))
    assert sorted(table.read(filters=pc.starts_with(pc.field("email"), "ant"))["id"].to_pylist()) == ["e"]
    # Not said by the index.
    for where in ("email like '%an'", "email not like 'an%'", "n > 0"):
        assert PruningStep.SECONDARY_INDEX not in table.scan(filters=where).explain().files.pruned


def test_neighbouring_bounds_hide_nothing(table: Table) -> None:
    table.upsert(rows(*((name, name[0], 1, name, 1) for name in ("ab", "abz", "ac", "ad", "b"))))
    table.create_index("by_email", on="email")
    for filters, expected in {
        "email >= 'ab' and email <= 'ac'": ["ab", "abz", "ac"],
        "email > 'ab' and email <= 'ac'": ["abz", "ac"],
        "email >= 'ab' and email < 'ac'": ["ab", "abz"],
        "email between 'a' and 'b'": ["ab", "abz", "ac", "ad", "b"],
    }.items():
        assert sorted(table.read(filters=filters)["id"].to_pylist()) == expected, filters


def test_readers_of_the_past_pass_over(table: Table) -> None:
    before = table.upsert(rows(("a", "x", 1, "old"))).instant
    table.create_index("by_email", on="email")
    table.upsert(rows(("a", "x", 2, "new")))
    assert table.read(filters="email = 'old'", as_of=before)["id"].to_pylist() == ["a"]


def test_later_commits_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "old"), ("b", "y", 1, "b")))
    table.create_index("by_email", on="email")
    scan = table.scan(filters="email = 'old'")
    open_table(table.location).upsert(rows(("a", "x", 2, "new")))
    table.metadata.compact()
    assert scan.to_table()["id"].to_pylist() == ["a"]


def test_later_builds_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "old"), ("b", "y", 1, "b")))
    earlier = opened_table(table).definition.load_timeline()
    table.upsert(rows(("a", "x", 2, "new")))
    # The first partitions of a metadata table have an instant before all others.
    table.create_index("by_email", on="email")
    found = state_before_later_commits(table, earlier).scan(["id"], "email = 'old'")
    assert found.to_table()["id"].to_pylist() == ["a"]


def test_recreated_indexes_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "old", 1), ("b", "y", 1, "b", 2)))
    table.create_index("one", on="email")
    scan = table.scan(filters="email = 'old'")
    table.drop_index("one")
    table.create_index("one", on="n")
    assert scan.to_table()["id"].to_pylist() == ["a"]
    assert table.read(filters="n = 2")["id"].to_pylist() == ["b"]


def test_record_indexes_take_others_with_them(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email")
    table.metadata.disable(["record_index"])
    assert [(index.name, index.state) for index in table.indexes()] == [("by_email", ColumnIndexState.INVALID)]
    assert table.create_index("by_email", on="email").state is ColumnIndexState.VALID
    require_same(table)


@pytest.mark.parametrize("partition", ["secondary_index_by_email", "record_index"])
def test_lost_logs_hide_no_record(table: Table, partition: str) -> None:
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))
    table.create_index("by_email", on="email")
    instant = table.upsert(rows(("a", "z", 2, "new"), ("c", "z", 1, "new"))).instant
    lost = [*Path(table.location, ".hoodie/metadata", partition).glob(f".*{instant}*.log.*")]
    for log in lost:
        log.unlink()
    assert lost
    assert sorted(table.read(filters="email = 'new'")["id"].to_pylist()) == ["a", "c"]


def test_given_up_writes_keep_the_index(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b", 1)))
    table.create_index("by_n", on="n")

    def give_up(step: Step) -> None:
        if step is Step.INFLIGHT:
            open_table(table.location).create_index("by_email", on="email")
        if step is Step.WRITTEN:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.upsert(rows(("a", "x", 2, "new", 1)), on_step=give_up)
    assert table.upsert(rows(("b", "y", 1, "b", 2))).inserted == 1
    require_same(table)
    assert {index.state for index in table.indexes()} == {ColumnIndexState.VALID}


def test_one_of_two_creators_wins(table: Table) -> None:
    """The one that has scheduled its index first."""
    table.upsert(rows(("a", "x", 1, "old", 1)))

    def other(*_: int) -> None:
        with pytest.raises(IndexExistsError, match="columns=email"):
            open_table(table.location).create_index("one", on="n")

    table.create_index("one", on="email", on_progress=other)
    assert [(index.columns, index.state) for index in table.indexes()] == [(("email",), ColumnIndexState.VALID)]


def test_too_long_values_name_the_column(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "old")))
    table.create_index("by_email", on="email")
    with pytest.raises(InvalidInputError, match="column=email"):
        table.upsert(rows(("a", "x", 2, "€" * 11_000)))
    assert table.read(filters="email = 'old'")["id"].to_pylist() == ["a"]
    table.drop_index("by_email")
    assert table.upsert(rows(("a", "x", 2, "€" * 11_000))).updated == 1


def test_impossible_secondary_indexes_are_refused(table: Table, tmp_path: Path) -> None:
    table.upsert(records(("a", "x", 1, 1.0)))
    with pytest.raises(InvalidInputError, match="double"):
        table.create_index("by_v", on="v")
    with pytest.raises(SchemaError, match="nowhere"):
        table.create_index("by_v", on="nowhere")
    older = create_table(tmp_path / "older", record_key="id")
    older.upsert(records(("a", "x", 1, 1.0)))
    with pytest.raises(UnsupportedTableError, match="version is 6"):
        older.create_index("by_city", on="city", home="metadata")
    assert table.indexes() == older.indexes() == ()
