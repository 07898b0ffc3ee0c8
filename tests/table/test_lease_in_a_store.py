"""The lease in a store of its own: apart from the index, under the identity of the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rli import IndexNotFoundError, LeaseBusyError, LeasePlace, SettingsError, Step, Table, create_table, open_table
from rli.coordination.lease import LEASE
from rli.coordination.shared_records import shared_records
from rli.table.table import opened_table
from rli.view import paths
from tests.support.children import was_killed
from tests.support.tables import assert_nothing_left_over, by_key, check_stored, records, rows_of


def new_table(folder: Path, name: str, index: str) -> Table:
    return create_table(
        folder / name, record_key="id", partition_by="city", ordering="ts", index=index, lease=f"lmdb://{folder}/leases"
    )


@pytest.mark.parametrize("index", ["lmdb://{folder}/index", "simple:"])
def test_writers_agree_in_the_store(tmp_path: Path, index: str) -> None:
    table = new_table(tmp_path, "t", index.format(folder=tmp_path))
    held: list[bytes | None] = []

    def look(step: Step) -> None:
        if step is Step.LEASED:
            other = open_table(table.location)
            held.append(shared_records(opened_table(other).definition, opened_table(other).index).read_control(LEASE))
            with pytest.raises(LeaseBusyError):
                other.clean(timeout=0)

    table.upsert(records(("a", "x", 1, 1.0)), on_step=look)
    assert held[0] is not None
    assert table.settings.lease == f"lmdb://{tmp_path}/leases"
    check_stored(table)
    assert shared_records(opened_table(table).definition, opened_table(table).index).scan_control("") == []


def test_tables_share_store_without_waiting(tmp_path: Path) -> None:
    first, second = (new_table(tmp_path, name, "simple:") for name in "ab")
    steps: list[str | None] = []

    def write_second(step: Step) -> None:
        if step is Step.LEASED:
            steps.append(second.upsert(records(("b", "x", 1, 1.0))).instant)

    first.upsert(records(("a", "x", 1, 1.0)), on_step=write_second)
    assert steps[0] is not None
    assert [row["id"] for row in rows_of(first)] == ["a"]


@pytest.mark.parametrize("step", [Step.WRITTEN, Step.LEASED, Step.PROMOTED])
def test_next_writer_clears_up_after_death(tmp_path: Path, step: Step) -> None:
    table = new_table(tmp_path, "t", f"lmdb://{tmp_path}/index")
    table.upsert(records(("a", "x", 1, 1.0)))
    table.close()
    assert was_killed(_die_at, table.location, step)
    with open_table(table.location) as again:
        again.upsert(records(("b", "x", 1, 1.0)))
        assert by_key(rows_of(again)) == by_key(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)).to_pylist())
        assert_nothing_left_over(again)
        assert [
            name
            for name, _ in shared_records(opened_table(again).definition, opened_table(again).index).scan_control("")
        ] == []


def _die_at(location: str, step: Step) -> None:
    from tests.crash.writes import die  # noqa: PLC0415  (in the child alone)

    def at_step(reported: Step) -> None:
        if reported is step:
            die()

    on_step: Callable[[Step], None] = at_step
    open_table(location).upsert(records(("dead", "y", 1, 1.0)), on_step=on_step)


@pytest.mark.parametrize(
    ("lease", "message"),
    [
        ("nowhere", 'lease: .*give "index", "table" or the url of a store'),
        ("nosuch://host", "no store for this URL.*url=nosuch://host"),
        ("redis://:secret@host", "may hold no password"),
        (7, "the url of a store"),
    ],
)
def test_bad_values_are_refused(tmp_path: Path, lease: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as raised:
        create_table(tmp_path / "t", record_key="id", index="simple:", lease=lease)  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_places_are_understood_as_before(tmp_path: Path) -> None:
    assert create_table(tmp_path / "a", record_key="id").settings.lease is LeasePlace.INDEX
    with_place = create_table(tmp_path / "b", record_key="id", index=f"lmdb://{tmp_path}/i", lease="table")
    assert open_table(with_place.location).settings.lease is LeasePlace.TABLE


def _insert_beside(location: str) -> None:
    open_table(location).upsert(records(("k", "y", 1, 1.0)))


@pytest.mark.parametrize(
    "read",
    [lambda table: table.info(), lambda table: table.read(), lambda table: table.lookup(["a"])],
    ids=["info", "read", "lookup"],
)
def test_readers_make_no_lease_store(tmp_path: Path, read: Callable[[Table], object]) -> None:
    """The settings may be another's: a report on a table makes no folder where they say."""
    with new_table(tmp_path, "t", "simple:") as table:
        table.upsert(records(("a", "x", 1, 1.0)))
    settings = Path(table.location, paths.SETTINGS)
    elsewhere = tmp_path / "outside" / "deep"
    content = settings.read_text().replace(f"lmdb://{tmp_path}/leases", f"lmdb://{elsewhere}")
    assert str(elsewhere) in content
    settings.write_text(content)
    with open_table(table.location) as opened:
        read(opened)
    assert not elsewhere.parent.exists()


@pytest.mark.parametrize("step", [Step.TAGGED, Step.PROMOTED])
def test_store_removed_during_write(tmp_path: Path, step: Step) -> None:
    """Other processes make it again and take the lease there: it must not be held twice."""
    table = new_table(tmp_path, "t", f"lmdb://{tmp_path}/index")
    table.upsert(records(("a", "x", 1, 1.0)))

    def remove(reached: Step) -> None:
        if reached is step:
            shutil.rmtree(tmp_path / "leases")
            assert not was_killed(_insert_beside, table.location)

    with pytest.raises(IndexNotFoundError, match=r"store of the lease is gone.*write again"):
        table.upsert(records(("k", "x", 2, 2.0)), on_step=remove)
    assert by_key(rows_of(table)).keys() == {"a", "k"}
    assert table.upsert(records(("k", "x", 2, 2.0))).moved == 1
    check_stored(table)


@pytest.mark.parametrize(
    ("lease", "message"),
    [
        ("lmdb:leases", "not name the same store in every process"),
        ("memory:leases", "not name the same store in every process"),
        ("lmdb://{folder}/index", "a bootstrap of the index would drop the lease"),
    ],
)
def test_unshared_lease_place_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lease: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=message):
        create_table("t", record_key="id", index=f"lmdb://{tmp_path}/index", lease=lease.format(folder=tmp_path))
    assert list(tmp_path.glob("**/*.mdb")) == []
