"""A real process dies at every change of a write that keeps Hudi's metadata table: the table and its metadata table agree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rli import Table, open_table
from rli.hudi.file_names import token_begin
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.storage import Storage
from tests.crash.changes import changes_to_kill
from tests.crash.writes import pointed
from tests.support.children import was_killed
from tests.support.faults import AtPoint, KillAt
from tests.support.metadata_tables import differences, metadata_reader, unpack_metadata_table
from tests.support.soak import EVERY_POINT
from tests.table.test_metadata_upkeep import with_values

pytestmark = pytest.mark.crash

LATER = 10**13


def _opened(table: Path) -> Table:
    return open_table(table, index=f"lmdb://{table.parent}/index")


def _upsert(table: Table, key: str = "new") -> None:
    """Updates, and a key that is new."""
    rows = table.read().sort_by("id").slice(0, 5)
    table.upsert(with_values(rows, id=[key, *rows["id"].to_pylist()[1:]], ts=LATER))


def _roll_back(table: Table) -> None:
    table.rollback("last")


def _restore(table: Table) -> None:
    table.restore(table.timeline()[-3].time)


def _clean(table: Table) -> None:
    table.clean(keep_commits=1)


_OPERATIONS = {"upsert": _upsert, "rollback": _roll_back, "restore": _restore, "clean": _clean}


def _do_and_die(table: Path, operation: str, at_point: AtPoint) -> None:
    _OPERATIONS[operation](pointed(_opened(table), at_point))


def _ids(table: Path) -> list[str]:
    return sorted(_opened(table).read(columns=["id"]).column(0).to_pylist())


def _is_decisive(point: str) -> bool:
    """Whether a point comes before an instant of either timeline completes."""
    *_, name = point.split("/")
    return point.startswith("before publish") and name.endswith(
        (".commit", ".deltacommit", ".rollback", ".restore", ".clean")
    )


def _completed(table: Path) -> set[str]:
    return {instant.time for instant in metadata_reader(table).timeline.completed}


def _log_files(table: Path) -> set[str]:
    files = Storage(str(table)).list_files(METADATA_FOLDER, recursive=True)
    return {file.name for file in files if ".log." in file.name}


@pytest.fixture(scope="module", params=["v9", "v6"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and its index; not changed by any test."""
    table = unpack_metadata_table(request.param, tmp_path_factory.mktemp("template"))
    open_table(table).index.bootstrap(f"lmdb://{table.parent}/index")
    if request.param == "v9":
        _opened(table).create_index("by_note", on="note")
    for key in ("one", "two", "three"):
        _upsert(_opened(table), key)
    return table


@pytest.mark.invariant("P52")
@pytest.mark.parametrize("operation", _OPERATIONS)
def test_kill_at_each_change_beside_metadata(template: Path, tmp_path: Path, operation: str) -> None:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(template.parent, tmp_path / name)) / template.name

    points: list[str] = []
    whole = copy("whole")
    _OPERATIONS[operation](pointed(_opened(whole), points.append))
    before, after = _ids(template), _ids(whole)
    first = next(number for number, point in enumerate(points, 1) if METADATA_FOLDER in point)
    numbers = [n for n, point in enumerate(points, 1) if n >= first and point.startswith("before")]
    some = {*numbers[::48], numbers[-1]}
    chosen = [n for n in numbers if EVERY_POINT or n in some or _is_decisive(points[n - 1])]
    outcomes = []
    for number in chosen:
        table = copy(str(number))
        assert was_killed(_do_and_die, table, operation, KillAt(number)), points[number - 1]
        # Readers of the table before anybody has cleared up, and the next write.
        assert [found for found in differences(table) if found.partition != "files"] == [], points[number - 1]
        outcomes.append(_ids(table) == after)
        assert outcomes[-1] or _ids(table) == before
        _opened(table).delete([before[0]])
        assert differences(table) == [], points[number - 1]
        timeline = metadata_reader(table).timeline
        assert timeline.pending == ()
        assert _completed(table) <= {instant.time for instant in _opened(table).timeline()} | _completed(template)
        written = [token_begin(instant.time) for instant in timeline.completed]
        assert [
            log for log in _log_files(table) - _log_files(template) if not any(token in log for token in written)
        ] == []
        shutil.rmtree(table.parent)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == ({False, True} if operation == "upsert" else {True})


def _delete_and_die(table: Path, at_point: AtPoint) -> None:
    pointed(_opened(table), at_point).delete([_ids(table)[0]])


@pytest.mark.invariant("P52")
def test_kill_while_finishing_killed_rollback(template: Path, tmp_path: Path) -> None:
    """The process that finishes the rollback of a dead one dies itself."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(template.parent, tmp_path / name)) / template.name

    points: list[str] = []
    _roll_back(pointed(_opened(copy("whole")), points.append))
    logs = [number for number, point in enumerate(points, 1) if "before publish" in point and ".log." in point]

    def with_killed_rollback(name: str) -> Path:
        table = copy(name)
        assert was_killed(_do_and_die, table, "rollback", KillAt(logs[len(logs) // 2]))
        return table

    finishing: list[str] = []
    _delete_and_die(with_killed_rollback("finished"), finishing.append)
    for number in changes_to_kill(finishing, 40):
        table = with_killed_rollback(str(number))
        assert was_killed(_delete_and_die, table, KillAt(number)), finishing[number - 1]
        _opened(table).delete([_ids(table)[0]])
        assert differences(table) == [], finishing[number - 1]
        shutil.rmtree(table.parent)
