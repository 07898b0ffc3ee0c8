"""The change of a write as its commit keeps it, and what it tells."""

from __future__ import annotations

from dataclasses import asdict

from rli.hudi.timeline.commit_metadata import AppendedTo, CommitMetadata, WriteStat
from rli.model import FileGroupId, WriteCounts
from rli.view.commit_facts import CommitFacts
from rli.view.slice_sums import SliceSum, SliceSums
from rli.view.table_change import NO_CHANGE, TableChange

WRITTEN = (
    WriteStat("a-0", "x/a-0_0-1-0_2.parquet", "x", "1", 3, 2, 1, 0, 50, 50),
    WriteStat("b-0", "y/b-0_0-1-0_2.parquet", "y", None, 3, 3, 0, 0, 60, 60),
)
LOG = ".e-0_1.log.2_0-1-0"
APPENDED = WriteStat(
    "e-0", f"x/{LOG}", "x", "1", 2, 0, 1, 1, 40, 40, AppendedTo("e-0_0-1-0_1.parquet", (".e-0_1.log.1_0-1-0", LOG))
)
CHANGE = TableChange.native(
    [WRITTEN[0], APPENDED, WRITTEN[1]],
    [FileGroupId("y", "d-0"), FileGroupId("x", "c-0")],
    avro_schema="{}",
    operation="CLUSTER",
    extra={"mine": "kept", "rli.transaction.id": "job", "rli.transaction.number": "7"},
    facts=CommitFacts(asdict(WriteCounts(inserted=5, duplicates=1)), "me@host", 1.25),
    deleted_keys=["k1", "k2"],
)


def test_a_commit_keeps_the_change() -> None:
    assert TableChange.of_commit(CommitMetadata.from_avro(CHANGE.commit_metadata.to_avro(), "f")) == CHANGE
    assert TableChange.of_commit(CommitMetadata.from_json(CHANGE.commit_metadata.to_json(), "f")) == CHANGE


def test_log_files_are_told_apart() -> None:
    assert (CHANGE.written, CHANGE.appended) == (WRITTEN, (APPENDED,))
    assert CHANGE.files == [*(stat.path for stat in WRITTEN), APPENDED.path, "k1", "k2"]
    assert CHANGE.superseded == CHANGE.groups - {APPENDED.group}
    assert TableChange(appended=(APPENDED,)).changes_files


def test_a_change_names_its_groups() -> None:
    assert CHANGE.groups == {
        FileGroupId("x", "a-0"),
        FileGroupId("x", "e-0"),
        FileGroupId("y", "b-0"),
        FileGroupId("x", "c-0"),
        FileGroupId("y", "d-0"),
    }
    assert CHANGE.partition_paths == {"x", "y"}


def test_a_change_tells_its_maker() -> None:
    assert CHANGE.is_native
    assert not TableChange(WRITTEN, extra={"mine": "kept"}).is_native
    assert (CHANGE.transaction, CHANGE.caller_metadata, CHANGE.deleted_keys) == (
        ("job", 7),
        {"mine": "kept"},
        ["k1", "k2"],
    )


def test_a_commit_tells_facts() -> None:
    assert CHANGE.facts.counts["inserted"] == 5
    assert (CHANGE.facts.writer, CHANGE.facts.seconds) == ("me@host", 1.25)
    assert TableChange(WRITTEN, extra={"rli.seconds": "long"}).facts == CommitFacts()
    for damaged in ("", "[]", '{"attempts": 2}', '{"attempts": 2, "conflicts": 1, "seconds": 3}'):
        assert TableChange(WRITTEN, extra={"rli.effort": damaged}).facts.effort is None
    earlier = '{"inserted": 1, "updated": 0, "moved": 0, "deleted": 0, "unchanged": 0}'
    assert "duplicates" not in TableChange(WRITTEN, extra={"rli.counts": earlier}).facts.counts


def test_a_commit_tells_sums() -> None:
    sums = SliceSums("2", 1, SliceSum(3, 4))
    assert CHANGE.slice_sums is None
    assert CHANGE.with_slice_sums(sums).slice_sums == sums


def test_removed_files_go_by_name() -> None:
    change = TableChange.removing({"x": ["file:///t/x/a.parquet", "b.parquet"]}, ["1"])
    assert change.removed == {"x": frozenset({"a.parquet", "b.parquet"})}
    assert change.undone == ("1",)


def test_a_change_of_files_is_told() -> None:
    assert CHANGE.changes_files
    assert TableChange.removing({"x": ["a.parquet"]}).changes_files
    assert not NO_CHANGE.changes_files
