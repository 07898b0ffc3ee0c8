"""A write that is published is made once, and its caller gets a result, whatever fails afterwards."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rli import CommitResult, ConflictError, Step, StoreUnavailableError, Table, VoidAttemptError, create_table
from rli.commit.lease_breaking import break_lease
from rli.coordination.shared_records import shared_records
from rli.coordination.signs import WRITERS
from rli.errors import UndecidedCommitError
from rli.storage import Draft, Storage, StoredFile
from rli.table.table import opened_table
from rli.view import paths
from tests.crash.writes import pointed
from tests.support.tables import check_stored, records, rows_of

_AFTER = [step for step in Step if list(Step).index(step) >= list(Step).index(Step.PUBLISHED)]
_LEASED = [step for step in Step if Step.MANIFESTED in list(Step)[: list(Step).index(step) + 1]]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    created = create_table(tmp_path / "table", record_key="id", partition_by="city", ordering="ts")
    created.upsert(records(("a", "x", 1, 1.0)))
    return created


def _with_lease(tmp_path: Path, lease: str) -> Table:
    index = f"lmdb://{tmp_path}/index"
    return create_table(
        tmp_path / "table", record_key="id", partition_by="city", ordering="ts", index=index, lease=lease
    )


@pytest.mark.parametrize("step", _AFTER)
@pytest.mark.parametrize(
    "failure", [ConflictError("another table's"), VoidAttemptError("another table's"), OSError("full")]
)
def test_a_callback_fails_after_publication(
    table: Table, step: Step, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    steps = list[Step]()

    def on_step(reached: Step) -> None:
        steps.append(reached)
        if reached is step:
            raise failure

    result = table.upsert(records(("b", "x", 1, 1.0)), on_step=on_step)
    assert (result.inserted, result.index_behind, steps.count(Step.REQUESTED)) == (1, False, 1)
    assert f"a step after its publication failed: table={table.location} instant={result.instant}" in caplog.text
    assert table.lookup(["b"])["partition_path"].to_pylist() == ["x"]
    check_stored(table)


@pytest.mark.parametrize("lease", ["index", "table"])
@pytest.mark.parametrize("step", _AFTER)
def test_interrupted_publication_leaves_nothing_behind(
    tmp_path: Path, step: Step, lease: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = _with_lease(tmp_path, lease)

    def on_step(reached: Step) -> None:
        if reached is step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.upsert(records(("b", "x", 1, 1.0)), on_step=on_step)
    assert "a write failed" not in caplog.text
    assert "a step after its publication failed" in caplog.text
    assert not opened_table(table).definition.storage.list_folders(paths.WORK)
    assert not shared_records(opened_table(table).definition, opened_table(table).index).scan_control(WRITERS)
    assert table.lookup(["b"])["partition_path"].to_pylist() == ["x"]
    check_stored(table)


class FailingAt:
    """From a step on, every change of the store fails."""

    def __init__(self, table: Table, step: Step, failure: Exception) -> None:
        self.table = pointed(table, self._at_point)
        self._step, self._failure = step, failure
        self._is_gone = False

    def upsert(self, *rows: tuple[str, str, int, float]) -> CommitResult:
        return self.table.upsert(records(*rows), on_step=self._on_step)

    def _on_step(self, reached: Step) -> None:
        self._is_gone = self._is_gone or reached is self._step

    def _at_point(self, point: str) -> None:
        if self._is_gone and point.startswith(("before put", "before compare_and_set")):
            raise self._failure


def _gone() -> Exception:
    return StoreUnavailableError("the server is gone")


def _full() -> Exception:
    return OSError(errno.ENOSPC, "disk full")


def says_nothing_was_written(error: Exception) -> bool:
    return any("nothing was written" in text for text in (str(error), *getattr(error, "__notes__", [])))


@pytest.mark.parametrize("step", _LEASED)
@pytest.mark.parametrize("failure", [_gone, _full])
def test_the_store_goes_at_a_step(table: Table, step: Step, failure: Callable[[], Exception]) -> None:
    raised: Exception | None = None
    try:
        result = FailingAt(table, step, failure()).upsert(("b", "x", 1, 1.0))
    except (StoreUnavailableError, OSError) as error:
        raised = error
    else:
        assert result.inserted == 1
    assert raised is None or says_nothing_was_written(raised)
    assert [row["id"] for row in rows_of(table)] == (["a", "b"] if raised is None else ["a"])
    break_lease(opened_table(table).definition, opened_table(table).index)
    table.upsert(records(("c", "x", 1, 1.0)))
    assert table.verify_index().agrees


def test_failing_store_leaves_index_behind(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="rli"):
        result = FailingAt(table, Step.PUBLISHED, StoreUnavailableError("gone")).upsert(("b", "x", 1, 1.0))
    assert (result.inserted, result.index_behind) == (1, True)
    assert "its index could not follow it" in caplog.text
    break_lease(opened_table(table).definition, opened_table(table).index)
    assert table.lookup(["b"])["partition_path"].to_pylist() == ["x"]
    check_stored(table)


def test_unchanged_write_survives_lost_store(table: Table) -> None:
    result = FailingAt(table, Step.WRITTEN, _gone()).upsert(("a", "x", 0, 1.0))
    assert (result.instant, result.unchanged) == (None, 1)
    assert [row["id"] for row in rows_of(table)] == ["a"]


def test_lease_lost_before_publication_writes_nothing(table: Table) -> None:
    def on_step(reached: Step) -> None:
        if reached is Step.PROMOTED:
            break_lease(opened_table(table).definition, opened_table(table).index)

    before = rows_of(table)
    with pytest.raises(ConflictError, match="nothing was written"):
        table.upsert(records(("b", "x", 1, 1.0)), attempts=1, on_step=on_step)
    assert rows_of(table) == before
    check_stored(table)


@dataclass(frozen=True)
class FailingStorage(Storage):
    """Fails while a commit is published: before or after it has its name, and perhaps from then on."""

    names: bool = False
    stays: bool = False

    def publish(self, draft: Draft, target: str) -> bool:
        if not target.endswith(".commit"):
            return super().publish(draft, target)
        if self.names:
            super().publish(draft, target)
        raise OSError(errno.EIO, "no answer")

    def settle(self, path: str) -> None:
        if self.stays:
            raise OSError(errno.EIO, "still no answer")
        super().settle(path)


@dataclass(frozen=True)
class LostStorage(Storage):
    """Is lost while a commit is published."""

    is_lost: list[str] = field(default_factory=list)

    def publish(self, draft: Draft, target: str) -> bool:
        if target.endswith(".commit"):
            super().publish(draft, target)
            self.is_lost.append(target)
        self._require_there()
        return super().publish(draft, target)

    def settle(self, path: str) -> None:
        self._require_there()
        super().settle(path)

    def list_files(self, path: str = "", *, recursive: bool = False) -> list[StoredFile]:
        self._require_there()
        return super().list_files(path, recursive=recursive)

    def _require_there(self) -> None:
        if self.is_lost:
            raise OSError(errno.EIO, "no answer")


def test_undecided_commit_outranks_lost_storage(tmp_path: Path) -> None:
    """The record of the writer cannot be removed either, because it lies in the table's folder."""
    table = _with_lease(tmp_path, "table")
    lost = Table(replace(opened_table(table).definition, storage=LostStorage(table.location)))
    with pytest.raises(UndecidedCommitError, match="it is not known whether the commit stands"):
        lost.upsert(records(("b", "x", 1, 1.0)))


def failing(table: Table, *, names: bool = False, stays: bool = False) -> Table:
    storage = FailingStorage(table.location, names=names, stays=stays)
    return Table(replace(opened_table(table).definition, storage=storage))


def test_commit_with_lost_answer_is_published(table: Table) -> None:
    result = failing(table, names=True).upsert(records(("b", "x", 1, 1.0)))
    assert result.inserted == 1
    check_stored(table)


def test_unnamed_commit_writes_nothing(table: Table) -> None:
    with pytest.raises(OSError, match="no answer") as raised:
        failing(table).upsert(records(("b", "x", 1, 1.0)))
    assert raised.value.__notes__ == ["nothing was written"]
    assert [row["id"] for row in rows_of(table)] == ["a"]
    check_stored(table)


@pytest.mark.parametrize(("names", "rows"), [(True, ["a", "b", "c"]), (False, ["a", "c"])])
def test_undecided_commit_is_reported(table: Table, *, names: bool, rows: list[str]) -> None:
    with pytest.raises(UndecidedCommitError, match="it is not known whether the commit stands"):
        failing(table, names=names, stays=True).upsert(records(("b", "x", 1, 1.0)))
    break_lease(opened_table(table).definition, opened_table(table).index)
    table.upsert(records(("c", "x", 1, 1.0)))
    assert [row["id"] for row in rows_of(table)] == rows
    assert not opened_table(table).definition.storage.list_folders(paths.WORK)
    check_stored(table)
