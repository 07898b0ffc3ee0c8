"""A write that carries its caller's transaction is committed once (docs/protocol.md, P26)."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from rli import ConflictError, InvalidInputError, Step, Table, TransactionMismatchError, create_table, open_table
from rli.commit.recovery import undo_unpublished
from rli.table.table import opened_table
from rli.view import paths
from rli.view.snapshot import Snapshot
from tests.crash.writes import die, pointed
from tests.support.children import was_killed
from tests.support.tables import by_key, check_stored, records, rows_of
from tests.table.test_many_writers import AtStep

JOB = "job-7"


@pytest.fixture
def plain(tmp_path: Path, memory_url: str) -> Table:
    """An empty table without ordering: the later write wins."""
    return create_table(tmp_path / "plain", record_key="id", partition_by="city", index=memory_url)


def writes_of(table: Table) -> list[str]:
    return [instant.time for instant in table.timeline() if instant.is_write and instant.is_completed]


def test_repeat_returns_first_result(table: Table) -> None:
    first = table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)), transaction=(JOB, 1))
    table.delete(["a"])
    before = rows_of(table)
    assert table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)), transaction=(JOB, 1)) == first
    assert first.inserted == 2
    assert rows_of(table) == before
    assert len(writes_of(table)) == 2
    check_stored(table)


def test_repeat_does_not_revert_later_writes(plain: Table) -> None:
    plain.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1))
    plain.upsert(records(("a", "x", 1, 2.0)), transaction=(JOB, 2))
    plain.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1))
    assert [row["v"] for row in rows_of(plain)] == [2.0]


def test_applications_count_by_themselves(plain: Table) -> None:
    applications = [JOB, "..", "a/b", "ä" * 300, "job-7 "]
    for number, application in enumerate(applications):
        plain.upsert(records(("a", "x", 1, float(number))), transaction=(application, 3))
    assert len(writes_of(plain)) == len(applications)
    for number, application in enumerate(applications):
        assert plain.upsert(records(("a", "x", 1, float(number))), transaction=(application, 3)).repeated
    assert [row["v"] for row in rows_of(plain)] == [4.0]


def test_case_variants_have_separate_folders(plain: Table) -> None:
    """Where the file system takes "Job" and "job" for one name, too."""
    for application in ("job", "Job", "JOB", "%4aob", "ä", "Ä"):
        plain.upsert(records(("a", "x", 1, 1.0)), transaction=(application, 3))
    folders = [folder.name for folder in Path(plain.location, paths.TRANSACTIONS).iterdir()]
    assert len({name.casefold() for name in folders}) == len(folders) == len(writes_of(plain)) == 6


def test_capitalised_transaction_folders_still_count(plain: Table) -> None:
    """Earlier versions made such folders."""
    first = plain.upsert(records(("a", "x", 1, 1.0)), transaction=("Job/1", 3))
    [folder] = Path(plain.location, paths.TRANSACTIONS).iterdir()
    folder.rename(folder.with_name("id=Job%2F1"))
    assert plain.upsert(records(("a", "x", 1, 1.0)), transaction=("Job/1", 3)) == first
    assert plain.upsert(records(("b", "x", 1, 2.0)), transaction=("Job/1", 4)).inserted == 1
    assert plain.upsert(records(("a", "x", 1, 1.0)), transaction=("Job/1", 3)) == first


def test_an_unknown_smaller_number_is_refused(plain: Table) -> None:
    second = plain.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 2))
    plain.upsert(records(("a", "x", 1, 5.0)), transaction=(JOB, 5))
    assert plain.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 2)) == second
    with pytest.raises(TransactionMismatchError, match=r"greater number .* transaction=job-7:3 committed=5"):
        plain.upsert(records(("b", "x", 1, 1.0)), transaction=(JOB, 3))
    assert [row["id"] for row in rows_of(plain)] == ["a"]
    check_stored(plain)


def test_repeat_with_other_verb_is_refused(plain: Table) -> None:
    batch = records(("a", "x", 1, 1.0))
    plain.upsert(batch, transaction=(JOB, 7))
    with pytest.raises(TransactionMismatchError, match="committed=upsert repeat=delete"):
        plain.delete(["a"], transaction=(JOB, 7))
    with pytest.raises(TransactionMismatchError, match="committed=upsert repeat=insert"):
        plain.insert(batch, transaction=(JOB, 7))
    assert plain.upsert(batch, transaction=(JOB, 7)).repeated
    assert len(writes_of(plain)) == 1
    check_stored(plain)


@pytest.mark.parametrize(
    "other",
    [
        (("a", "x", 1, 1.0),),
        (("a", "x", 1, 1.0), ("b", "y", 1, 2.5)),
        (("a", "x", 1, 1.0), ("b", "y", 2, 2.0)),
        (("a", "x", 1, 2.0), ("b", "y", 1, 1.0)),
        (("a", "x", 1, 1.0), ("b", "y", 1, 2.0), ("b", "y", 1, 2.0)),
    ],
)
def test_repeat_with_other_records_is_refused(plain: Table, other: tuple[tuple[str, str, int, float], ...]) -> None:
    plain.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)), transaction=(JOB, 7))
    with pytest.raises(TransactionMismatchError, match=f"other records: .* repeat rows={len(other)}"):
        plain.upsert(records(*other), transaction=(JOB, 7))
    assert len(writes_of(plain)) == 1


def test_a_repeat_may_be_arranged_otherwise(plain: Table) -> None:
    rows = records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0), ("a", "x", 2, 3.0))
    first = plain.upsert(rows, transaction=(JOB, 7))
    arranged = rows.take([2, 0, 1]).select(rows.column_names[::-1])
    narrow = pa.concat_tables([arranged.slice(0, 1), arranged.slice(1)])
    for repeat in (arranged, narrow, rows.append_column("new", pa.nulls(3, pa.string())), rows.to_batches(1)):
        again = plain.upsert(repeat, transaction=(JOB, 7))
        assert (again, again.repeated, first.repeated) == (first, True, False)
    assert plain.delete(["a", "b", "a"], transaction=(JOB, 8)).deleted == 2
    assert plain.delete(["a", "a", "b"], transaction=(JOB, 8)).repeated
    with pytest.raises(TransactionMismatchError, match="committed rows=3 repeat rows=2"):
        plain.delete(["a", "b"], transaction=(JOB, 8))


def test_old_transaction_record_may_be_repeated(plain: Table) -> None:
    """Earlier versions kept neither the verb nor the records."""
    first = plain.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 7))
    [path] = Path(plain.location, paths.TRANSACTIONS).glob("*/*")
    golden = Path(__file__).parents[1] / "data" / "golden" / "transaction-1.json"
    earlier = json.loads(golden.read_text())
    earlier["result"]["instant"] = first.instant
    path.write_text(json.dumps(earlier))
    again = plain.delete(["a"], transaction=(JOB, 7))
    assert (again.instant, again.inserted, again.repeated) == (first.instant, 1, True)


def test_records_of_transactions_stay_readable(plain: Table) -> None:
    first = plain.upsert(records(("a", "x", 1, 1.0), ("a", "x", 1, 1.0)), transaction=(JOB, 7))
    [path] = Path(plain.location, paths.TRANSACTIONS).glob("*/*")
    golden = json.loads((Path(__file__).parents[1] / "data" / "golden" / "transaction-1-request.json").read_text())
    stored = json.loads(path.read_text())
    stored["result"].update(instant=golden["result"]["instant"], written_bytes=golden["result"]["written_bytes"])
    # Written by releases that knew no log files.
    assert stored["result"].pop("files_appended") == 0
    assert stored == golden
    assert first.duplicates == 1


def test_unchanged_write_is_recorded(table: Table) -> None:
    first = table.delete(["a"], transaction=(JOB, 1))
    assert (first.unchanged, len(writes_of(table))) == (1, 1)
    table.upsert(records(("a", "x", 1, 1.0)))
    assert table.delete(["a"], transaction=(JOB, 1)) == first
    late = table.upsert(records(("a", "x", 0, 0.0)), transaction=(JOB, 2))
    assert late.unchanged == 1
    assert late.instant is not None
    assert by_key(rows_of(table)) == by_key(records(("a", "x", 1, 1.0)).to_pylist())
    check_stored(table)
    open_table(table.location).sync_index()


@pytest.mark.invariant("P26")
@pytest.mark.parametrize("step", [Step.REQUESTED, Step.TAGGED, Step.WRITTEN])
def test_shared_transaction_commits_once(table: Table, step: Step) -> None:
    other, results = open_table(table.location), []
    batch = records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0))
    at_step = AtStep(step, lambda: results.append(other.upsert(batch, transaction=(JOB, 1))))
    assert table.upsert(batch, transaction=(JOB, 1), on_step=at_step) == results[0]
    assert writes_of(table) == [results[0].instant]
    # One that would be in no conflict, too.
    at_step = AtStep(step, lambda: results.append(other.upsert(records(("c", "z", 1, 1.0)), transaction=(JOB, 2))))
    with pytest.raises(TransactionMismatchError, match="other records"):
        table.upsert(records(("d", "w", 1, 1.0)), transaction=(JOB, 2), on_step=at_step)
    assert table.upsert(records(("c", "z", 1, 1.0)), transaction=(JOB, 2)) == results[1]
    assert sorted(by_key(rows_of(table))) == ["a", "b", "c"]
    check_stored(table)


def _upsert(path: str, start: Any, results: Any) -> None:
    with open_table(path) as opened:
        start.wait()
        results.put([opened.upsert(records(("a", "x", n, float(n))), transaction=(JOB, n)).instant for n in range(5)])


def test_processes_commit_shared_transactions_once(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    table.close()
    spawn = multiprocessing.get_context("forkserver")
    start, results = spawn.Barrier(2), spawn.Queue()
    children = [spawn.Process(target=_upsert, args=(str(tmp_path / "t"), start, results)) for _ in range(2)]
    for child in children:
        child.start()
    found = [results.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    assert len(writes_of(table)) == 5
    assert {instant for instants in found for instant in instants if instant} == set(writes_of(table))


def _upsert_and_die(path: Path, step: Step) -> None:
    batch = records(("a", "x", 1, 1.0))
    open_table(path).upsert(batch, transaction=(JOB, 1), on_step=lambda at: die() if at is step else None)


@pytest.mark.invariant("P26")
@pytest.mark.crash
@pytest.mark.parametrize("step", [Step.WRITTEN, Step.FILE_PROMOTED, Step.PROMOTED, Step.PUBLISHED, Step.APPLIED])
def test_kill_leaves_transaction_whole(tmp_path: Path, step: Step) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    table.close()
    assert was_killed(_upsert_and_die, tmp_path / "t", step)
    was_committed = list(Step).index(step) >= list(Step).index(Step.PUBLISHED)
    opened = open_table(tmp_path / "t")
    if was_committed:
        opened.delete(["a"])
    result = opened.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1))
    assert result.inserted == 1
    assert [row["id"] for row in rows_of(opened)] == ([] if was_committed else ["a"])
    check_stored(opened)


def test_rolled_back_transaction_commits_again(table: Table) -> None:
    table.upsert(records(("z", "x", 1, 1.0)))
    first = table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1))
    assert first.instant is not None
    table.rollback(first.instant)
    again = table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1))
    assert again.instant not in {None, first.instant}
    assert table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1)) == again


def test_a_restore_takes_transactions_back(table: Table) -> None:
    first = table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1))
    assert first.instant is not None
    for number in (2, 3):
        table.upsert(records(("a", "x", number, 1.0)), transaction=(JOB, number))
    table.restore(first.instant)
    assert table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1)) == first
    assert table.upsert(records(("a", "x", 2, 7.0)), transaction=(JOB, 2)).updated == 1
    table.archive(keep_commits=1)
    table.clean(keep_commits=1)
    assert table.upsert(records(("a", "x", 2, 7.0)), transaction=(JOB, 2)).updated == 1
    assert [row["v"] for row in rows_of(table)] == [7.0]


@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_undone_transaction_leaves_no_record(tmp_path: Path, undo: str) -> None:
    """Hudi archives rollbacks, too. Then no timeline tells that the commit was undone, and its record would count."""
    table = create_table(tmp_path / "table", record_key="id", partition_by="city", index="global-simple:")
    first = table.upsert(records(("a", "x", 1, 1.0)))
    second = table.upsert(records(("b", "x", 1, 1.0)), transaction=(JOB, 1))
    if undo == "rollback":
        table.rollback(second.instant or "")
    else:
        table.restore(first.instant or "")
    last = table.upsert(records(("c", "x", 1, 1.0)))
    for file in Path(table.location, ".hoodie").glob("[0-9]*"):
        if file.name < (last.instant or ""):
            file.unlink()
    assert table.upsert(records(("b", "x", 1, 1.0)), transaction=(JOB, 1)).inserted == 1
    assert [row["id"] for row in rows_of(table)] == ["a", "b", "c"]


def test_transactions_survive_all_services(table: Table) -> None:
    results = [
        table.upsert(records((f"k{number}", f"p{number % 2}", 1, 1.0)), transaction=(JOB, number))
        for number in range(6)
    ]
    table.upsert(records(("other", "p0", 1, 1.0)), transaction=("other", 1))
    table.cluster(smaller_than=1 << 30)
    for number in range(3):
        table.upsert(records(("last", "p0", number, 1.0)))
    table.clean(keep_commits=1)
    table.archive(keep_commits=1)
    assert table.upsert(records(("k5", "p1", 1, 1.0)), transaction=(JOB, 5)) == results[5]
    table.upsert(records(("six", "p0", 1, 1.0)), transaction=(JOB, 6))
    folder = Path(table.location) / paths.TRANSACTIONS
    # Of the archived commits one record is kept, and the commit before this one found it.
    assert sorted(file.name.partition(".")[0].lstrip("0") for file in folder.glob(f"id={JOB}/*")) == ["5", "6"]
    with pytest.raises(TransactionMismatchError, match="transaction=job-7:1 committed=6"):
        table.upsert(records(("k1", "p1", 1, 1.0)), transaction=(JOB, 1))
    assert table.upsert(records(("other", "p0", 1, 1.0)), transaction=("other", 1)).inserted == 1
    assert "new" not in {row["id"] for row in rows_of(table)}


def test_failed_write_leaves_transaction_uncommitted(table: Table) -> None:
    table.upsert(records(("a", "x", 1, 1.0)))
    other = open_table(table.location)
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("a", "x", 2, 2.0))))
    with pytest.raises(ConflictError):
        table.upsert(records(("a", "x", 3, 3.0)), transaction=(JOB, 1), attempts=1, on_step=at_step)
    assert table.upsert(records(("a", "x", 3, 3.0)), transaction=(JOB, 1)).updated == 1


def test_caller_metadata_is_kept_with_commit(table: Table) -> None:
    result = table.upsert(records(("a", "x", 1, 1.0)), metadata={"offset": "17", "é": "ü"}, transaction=(JOB, 1))
    snapshot = Snapshot.now(opened_table(table).definition.reloaded())
    commit = snapshot.change(snapshot.timeline.find(result.instant or ""))
    assert (commit.caller_metadata, commit.transaction) == ({"offset": "17", "é": "ü"}, (JOB, 1))
    unchanged = table.delete(["nobody"], metadata={"offset": "18"})
    assert unchanged.instant is not None


@pytest.mark.parametrize(
    "transaction",
    [("", 1), (JOB, -1), (JOB, 2**63), (JOB, "1"), (JOB, True), (JOB,), "j1", (1, JOB), ("job-\ud800", 1)],
)
def test_invalid_transaction_is_refused(table: Table, transaction: Any) -> None:
    with pytest.raises(InvalidInputError, match="not a transaction"):
        table.upsert(records(("a", "x", 1, 1.0)), transaction=transaction)
    assert table.timeline() == ()


@pytest.mark.parametrize(
    "metadata", [{"schema": "x"}, {"rli.journal": "x"}, {"n": 1}, {"": "x"}, {"\udc00": "x"}, {"n": "\udfff"}]
)
def test_unstorable_metadata_is_refused(table: Table, metadata: Any) -> None:
    with pytest.raises(InvalidInputError):
        table.delete(["a"], metadata=metadata)
    assert table.timeline() == ()


def test_unwritten_table_keeps_transaction(plain: Table) -> None:
    first = plain.delete(["a"], transaction=(JOB, 1))
    assert plain.schema is None
    assert plain.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 2)).inserted == 1
    assert plain.delete(["a"], transaction=(JOB, 1)) == first
    assert plain.read().num_rows == 1


def test_file_system_leftovers_are_ignored(table: Table) -> None:
    first = table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1))
    (folder,) = Path(table.location, paths.TRANSACTIONS).iterdir()
    for name in (".DS_Store", ".nfs0001", "note.txt"):
        (folder / name).write_text("x")
    assert table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1)) == first
    table.rollback(first.instant or "")
    assert table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 1)).inserted == 1
    check_stored(table)


@pytest.mark.invariant("P9")
def test_record_promoted_during_undo_is_removed(table: Table) -> None:
    """The manifest with the record takes the place of an earlier one when the other process has begun to undo the write."""
    table.upsert(records(("a", "x", 1, 1.0)))
    is_leased, may_go_on, is_promoted, is_undone = Event(), Event(), Event(), Event()

    def hold(step: Step) -> None:
        if step is Step.LEASED:
            is_leased.set()
            may_go_on.wait()
        elif step is Step.PROMOTED:
            is_promoted.set()
            is_undone.wait()
            raise ConflictError("the end of the writer")

    def write() -> None:
        with pytest.raises(ConflictError):
            table.upsert(records(("b", "x", 1, 1.0)), transaction=(JOB, 1), attempts=1, on_step=hold)

    def promote(_point: str) -> None:
        may_go_on.set()
        assert is_promoted.wait(60)

    writer = Thread(target=write)
    writer.start()
    try:
        assert is_leased.wait(60)
        storage = opened_table(table).definition.storage
        [folder] = storage.list_folders(paths.WORK)
        instant = folder.rpartition("/")[2]
        undo_unpublished(opened_table(pointed(table, promote)).definition, instant)
        left = [file.path for file in storage.list_files(recursive=True) if instant in file.path]
    finally:
        may_go_on.set()
        is_undone.set()
        writer.join()
    assert left == []
    check_stored(table)
