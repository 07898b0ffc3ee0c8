"""A version that was acknowledged is never lost in silence: a lost base file is named, and nothing builds on the one before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rli import CorruptTableError, RliError, Step, Table, open_table
from rli.table.table import opened_table
from rli.view.lost_files import lost_files, recorded_sums
from rli.view.slice_sums import SliceSum
from rli.view.snapshot import Snapshot
from tests.support.index_kinds import KINDS, Kind, kinds_without_metadata_table
from tests.support.soak import in_ci
from tests.support.tables import check_stored, records, rows_of, turn_into_foreign_commit, turn_into_version_9

RECORD = KINDS["record"]

Use = Callable[[Table], object]

USES: dict[str, Use] = {
    "read": Table.read,
    "scan": lambda table: table.scan(filters="ts > 0").files(),
    "get": lambda table: table.get(["k"]),
    "update": lambda table: table.upsert(records(("k", "x", 9, 9.0))),
    "late update": lambda table: table.upsert(records(("k", "x", 0, 0.0))),
    "delete": lambda table: table.delete(["k"]),
    "verify": Table.verify_index,
    "repair": Table.repair_index,
    "bootstrap": Table.bootstrap_index,
    "archive": lambda table: table.archive(keep_commits=1),
}


def lose_newest(table: Table, partition: str) -> Path:
    """Remove the newest base file or log file of a partition."""
    files = [path for path in Path(table.location, partition).iterdir() if {".parquet", ".log"} & {*path.suffixes}]
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    return newest


def made(kind: Kind, folder: Path, version: int = 6) -> Table:
    """Three commits: one that inserts ``k`` and ``l``, one that updates ``k``, and one that updates ``l``."""
    table = kind.create(folder, maintenance=False)
    if version != 6:
        turn_into_version_9(table)
        table = open_table(table.location)
    table.upsert(records(("k", "x", 1, 1.0), ("l", "y", 1, 1.0)))
    table.upsert(records(("k", "x", 2, 2.0)))
    table.upsert(records(("l", "y", 2, 2.0)))
    return table


@kinds_without_metadata_table
@pytest.mark.invariant("P41")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_lost_version_is_named(use: Use, kind: Kind, tmp_path: Path) -> None:
    table = made(kind, tmp_path)
    lost = lose_newest(table, "x")
    before = table.timeline()
    with pytest.raises(CorruptTableError, match=f"missing: file=x/{lost.name} .*restore it from a backup"):
        use(table)
    with pytest.raises(CorruptTableError, match=lost.name):
        use(open_table(table.location))
    assert table.timeline() == before


@kinds_without_metadata_table
@pytest.mark.parametrize("use", [USES["read"], USES["get"], USES["update"], USES["verify"]])
def test_a_lost_only_version_is_named(use: Use, kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path, maintenance=False)
    table.upsert(records(("k", "x", 1, 1.0)))
    table.upsert(records(("l", "y", 2, 2.0)))
    lost = lose_newest(table, "x")
    with pytest.raises(RliError, match=lost.name.partition("_")[0]):
        use(open_table(table.location))


@kinds_without_metadata_table
@pytest.mark.parametrize("use", [USES["read"], USES["verify"]])
def test_a_lost_partition_is_named(use: Use, kind: Kind, tmp_path: Path) -> None:
    table = made(kind, tmp_path)
    shutil.rmtree(Path(table.location, "x"))
    with pytest.raises(CorruptTableError, match="missing: file=x/"):
        use(table)


@kinds_without_metadata_table
def test_verify_finds_loss_of_last_commit(kind: Kind, tmp_path: Path) -> None:
    table = made(kind, tmp_path)
    lost = lose_newest(table, "y")
    with pytest.raises(CorruptTableError, match=f"file of the last commit is missing: file=y/{lost.name}"):
        table.verify_index()


@pytest.mark.parametrize("version", [6, 9])
def test_other_file_groups_stay_usable(version: int, tmp_path: Path) -> None:
    table = made(RECORD, tmp_path, version)
    lose_newest(table, "x")
    assert table.get(["l"])["ts"].to_pylist() == [2]
    assert table.upsert(records(("l", "y", 3, 3.0))).updated == 1
    assert table.get(["l"])["ts"].to_pylist() == [3]
    with pytest.raises(CorruptTableError, match="missing: file=x/"):
        table.read()


@pytest.mark.parametrize("version", [6, 9])
def test_past_state_misses_only_own_files(version: int, tmp_path: Path) -> None:
    table = made(RECORD, tmp_path, version)
    first, second, _ = (instant.time for instant in table.timeline())
    lose_newest(table, "x")
    assert rows_of(table.read(as_of=first))[0]["ts"] == 1
    with pytest.raises(CorruptTableError, match=second):
        table.read(as_of=second)


@pytest.mark.parametrize("use", [USES["read"], USES["scan"], USES["verify"]])
def test_lost_saved_files_name_the_savepoint(use: Use, tmp_path: Path) -> None:
    table = made(RECORD, tmp_path)
    saved = table.savepoint()
    lost = lose_newest(table, "y")
    with pytest.raises(
        CorruptTableError, match=f"savepoint={saved} file=y/{lost.name}.*rli savepoint TABLE INSTANT --del"
    ):
        use(table)


def test_a_restored_file_ends_the_error(tmp_path: Path) -> None:
    table = made(RECORD, tmp_path)
    whole = tmp_path / "whole"
    shutil.copytree(table.location, whole)
    lost = lose_newest(table, "x")
    with pytest.raises(CorruptTableError):
        table.upsert(records(("k", "x", 3, 3.0)))
    shutil.copy(whole / "x" / lost.name, lost)
    assert table.upsert(records(("k", "x", 3, 3.0))).updated == 1
    check_stored(table)


def test_going_back_ends_the_error(tmp_path: Path) -> None:
    table = made(RECORD, tmp_path)
    first = table.timeline()[0].time
    lose_newest(table, "x")
    table.restore(first)
    assert [row["ts"] for row in rows_of(table)] == [1, 1]
    check_stored(table)


def test_the_version_before_may_stand_in(tmp_path: Path) -> None:
    table = made(RECORD, tmp_path)
    lost = lose_newest(table, "x")
    [before] = Path(table.location, "x").glob("*.parquet")
    shutil.copy(before, lost)
    assert [row["ts"] for row in rows_of(table)] == [1, 2]
    assert table.verify_index().agrees


@kinds_without_metadata_table
@pytest.mark.parametrize("kept_by", ["another engine", "an earlier version"])
def test_write_finds_loss_without_sums(kept_by: str, kind: Kind, tmp_path: Path) -> None:
    table = made(replace(kind, version=6), tmp_path)
    for instant in table.timeline():
        if kept_by == "another engine":
            turn_into_foreign_commit(table, instant.time)
        else:
            forget_sums(table, instant.time)
    lost = lose_newest(table, "x")
    with pytest.raises(CorruptTableError, match=lost.name):
        table.verify_index()
    with pytest.raises(CorruptTableError, match=lost.name):
        table.upsert(records(("k", "x", 9, 9.0)))


def test_write_survives_archive_meanwhile(tmp_path: Path) -> None:
    table = made(RECORD, tmp_path)
    for instant in table.timeline():
        forget_sums(table, instant.time)

    def archive_meanwhile(step: Step) -> None:
        if step is Step.WRITTEN:
            assert open_table(table.location).archive(keep_commits=1).instants_archived == 2

    assert table.upsert(records(("m", "x", 1, 1.0)), on_step=archive_meanwhile).inserted == 1
    check_stored(table)


def forget_sums(table: Table, instant: str) -> None:
    """Make a commit one of a version of rli that kept no sums."""
    [path] = Path(table.location, ".hoodie").glob(f"{instant}.*commit")
    path.write_text(path.read_text().replace('"rli.slices"', '"rli.forgotten"'))


def test_copied_sums_do_not_count(tmp_path: Path) -> None:
    table = made(RECORD, tmp_path)
    first, *_, last = (Path(table.location, ".hoodie", f"{instant.time}.commit") for instant in table.timeline())
    copied, content = (json.loads(path.read_bytes()) for path in (first, last))
    content["extraMetadata"]["rli.slices"] = copied["extraMetadata"]["rli.slices"]
    last.write_text(json.dumps(content))
    assert recorded_sums(Snapshot.now(opened_table(table).definition.reloaded())) is None


def test_sums_begin_again_after_another_engine(tmp_path: Path) -> None:
    table = made(RECORD, tmp_path)
    turn_into_foreign_commit(table, table.timeline()[-1].time)
    table.bootstrap_index()
    lose_newest(table, "x")
    table.upsert(records(("l", "y", 3, 3.0)))
    with pytest.raises(CorruptTableError, match="missing: file=x/"):
        table.read()


@kinds_without_metadata_table
@pytest.mark.parametrize("version", in_ci([9], of=[6, 9]))
def test_sums_follow_every_operation(kind: Kind, version: int, tmp_path: Path) -> None:
    table = made(kind, tmp_path, version)
    for step in range(3, 7):
        table.upsert(records(*((f"k{step}{number}", f"p{number}", step, 1.0) for number in range(40))))
        assert_sums_agree(table)
        table.insert(records(("k", "x", step, 1.0), (f"m{step}", f"q{step}", 1, 1.0)))
        table.delete(["k30", "l"])
        assert_sums_agree(table)
        if kind.can_cluster:
            table.cluster()
            assert_sums_agree(table)
        if step == 5:
            table.rollback("last")
            assert_sums_agree(table)
        if step == 6:
            table.restore([instant.time for instant in table.timeline() if instant.is_write][-3])
            assert_sums_agree(table)
        table.clean(keep_commits=2)
        table.archive(keep_commits=6)
        assert_sums_agree(table)
    check_stored(table)


def assert_sums_agree(table: Table) -> None:
    snapshot = Snapshot.now(opened_table(table).definition.reloaded())
    sums = recorded_sums(snapshot)
    assert sums is not None
    assert sums.whole == SliceSum.of((held.group, part) for held in snapshot.slices.values() for part in held.parts)
    assert lost_files(snapshot) == {}
