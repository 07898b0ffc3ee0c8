"""Names in a table's files and in its index lead nowhere outside the table's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rli import (
    CorruptIndexError,
    CorruptTableError,
    IndexExistsError,
    RliError,
    Table,
    create_table,
    open_table,
)
from rli.hudi.timeline.clean_metadata import CleanPlan
from rli.hudi.timeline.rollback_metadata import RollbackPlan
from rli.processes import ProcessId
from rli.storage import Storage
from tests.support.indexes import record_index
from tests.support.tables import commit_version, records

DEAD = "20200101000000000"
COMING = "20990101000000000"

Plant = Callable[[Table, Path], object]
"""Hides names that lead to a folder outside in a table; may return a call that is to be tried in place of an upsert."""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A folder beside the table, with files that do not belong to it."""
    folder = tmp_path / "other"
    versions = ("x/f-0_0-0-0_20200101000000000.parquet", "x/f-0_0-0-0_20200102000000000.parquet")
    for name in ("file.txt", "files/file.txt", *versions):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")
    return folder


def _own(table: Table, *names: str) -> Path:
    path = Path(table.location, ".hoodie", *names)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def clean_plan(table: Table, other: Path) -> object:
    files = {str(other): ("file.txt",), f"../{other.name}": ("file.txt",)}
    _own(table, f"{COMING}.clean.requested").write_bytes(CleanPlan(None, "", "", files).to_avro())
    return lambda opened: opened.clean(keep_commits=5)


def manifest_with_absolute_path(table: Table, other: Path) -> None:
    _write_json(_own(table, ".rli/work", DEAD, "manifest.json"), [str(other / "file.txt")])


def manifest_with_relative_path(table: Table, other: Path) -> None:
    _write_json(_own(table, ".rli/work", DEAD, "manifest.json"), [f"../{other.name}/file.txt"])


def archive_plan(table: Table, other: Path) -> None:
    plan = {"version": 1, "archive": None, "digest": None, "files": [f"../{other.name}/file.txt"]}
    _write_json(_own(table, ".rli/archiving/deadbeef/plan.json"), plan)


def rollback_plan_with_files(table: Table, other: Path) -> None:
    _plant_rollback(table, RollbackPlan(DEAD, "commit", {"": (f"{table.location}/../{other.name}/file.txt",)}))


def rollback_plan_with_an_instant(table: Table, other: Path) -> None:
    _plant_rollback(table, RollbackPlan(f"../../{other.name}/file", "txt", {}))


def _plant_rollback(table: Table, plan: RollbackPlan) -> None:
    _own(table, f".rli/undoing/{COMING}.rollback").write_text("")
    _own(table, f"{COMING}.rollback.requested").write_bytes(plan.to_avro())


def write_stats(table: Table, other: Path) -> object:
    stats = [
        {"fileId": "f-0", "path": path, "prevCommit": "null", "numWrites": 1}
        for path in (str(other / "file.txt"), f"../{other.name}/file.txt")
    ]
    for state in (".commit.requested", ".inflight"):
        _own(table, COMING + state).touch()
    _write_json(_own(table, f"{COMING}.commit"), {"partitionToWriteStats": {"x": stats}, "operationType": "UPSERT"})
    return lambda opened: opened.rollback(COMING)


def link_in_place_of_a_work_folder(table: Table, other: Path) -> None:
    _own(table, ".rli/work", DEAD).symlink_to(other)


def link_in_place_of_a_partition(table: Table, other: Path) -> object:
    Path(table.location, "linked").symlink_to(other / "x")
    return lambda opened: opened.clean(keep_commits=1)


def folder_of_the_archive(table: Table, other: Path) -> object:
    _change_property(table, "hoodie.archivelog.folder", f"../../{other.name}/archive")
    return lambda opened: opened.archive(keep_commits=1)


def _change_property(table: Table, name: str, value: str) -> None:
    path = _own(table, "hoodie.properties")
    kept = [line for line in path.read_text().splitlines() if not line.startswith((name, "hoodie.table.checksum"))]
    path.write_text("\n".join([*kept, f"{name}={value}"]) + "\n")


def partition_path_in_the_commit_log(table: Table, other: Path) -> object:
    store = record_index(table).store
    for name, content in store.scan_control("commit/"):
        record = json.loads(content)
        record["fileGroups"] = [[f"../{other.name}/x", "f-0"] for _ in record["fileGroups"]]
        assert store.compare_and_set(name, content, json.dumps(record).encode())
    return lambda opened: opened.delete(["a"])


def record_of_a_writer(table: Table, other: Path) -> None:
    _plant_writer(table, f"../../../../{other.name}")


def _plant_writer(table: Table, instant: str) -> None:
    dead = {"writer": "w", "host": "h", "pid": 1, "started": "", "expiresAt": 0, "seconds": 1, "displaced": []}
    assert record_index(table).store.compare_and_set(f"writer/{instant}", None, json.dumps(dead).encode())


PLANTS: tuple[Plant, ...] = (
    clean_plan,
    manifest_with_absolute_path,
    manifest_with_relative_path,
    archive_plan,
    rollback_plan_with_files,
    rollback_plan_with_an_instant,
    write_stats,
    link_in_place_of_a_work_folder,
    link_in_place_of_a_partition,
    folder_of_the_archive,
    partition_path_in_the_commit_log,
    record_of_a_writer,
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_names_cannot_escape_table(plant: Plant, tmp_path: Path, other: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "table", record_key="id", partition_by="city", ordering="ts", index=memory_url)
    for version in range(4):
        commit_version(table, version)
    call = plant(table, other)
    before = _contents(other)

    with suppress(RliError):
        opened = open_table(table.location)
        call(opened) if callable(call) else opened.upsert(records(("n", "x", 9, 0.0)))

    assert _contents(other) == before


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("instant", ["../../../../other", "", "\N{ARABIC-INDIC DIGIT TWO}" * 17, "1"])
def test_writer_record_without_instant_is_named(trips: Table, instant: str) -> None:
    commit_version(trips, 1)
    _plant_writer(trips, instant)

    with pytest.raises(CorruptIndexError, match="writer/"):
        commit_version(trips, 2)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a/./b", "..", ".", "a\0b"])
def test_escaping_path_is_refused(path: str, tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))

    for call in (storage.read_bytes, storage.exists, storage.list_files, storage.make_folder, storage.delete_folder):
        with pytest.raises(CorruptTableError, match="leads out"):
            call(path)


def _plant_claim(folder: Path, content: bytes) -> None:
    claim = folder / ".hoodie/.rli/creating.json"
    claim.parent.mkdir(parents=True)
    claim.write_bytes(content)


def _claim_of_a_dead_process(table: Table) -> bytes:
    claim = {"table_id": table.settings.table_id, "index_url": table.settings.index_url}
    return json.dumps({**claim, "host": ProcessId.current().host, "pid": 2**22 + 1, "started": "0"}).encode()


@pytest.mark.parametrize("suffix", ["", "-other"])
def test_a_planted_claim_drops_no_index(trips: Table, tmp_path: Path, memory_url: str, suffix: str) -> None:
    commit_version(trips, 1)
    _plant_claim(tmp_path / "trap", _claim_of_a_dead_process(trips))

    with suppress(IndexExistsError):
        create_table(tmp_path / "trap", record_key="id", index=memory_url + suffix)

    assert trips.lookup(["a"]).column("partition_path").to_pylist() == ["x"]


@pytest.mark.parametrize("content", [b"{", b"{}", b"[]", b'{"pid": "x"}'])
def test_a_damaged_claim_is_named(tmp_path: Path, memory_url: str, content: bytes) -> None:
    _plant_claim(tmp_path / "t", content)

    with pytest.raises(CorruptTableError, match=r"creating\.json"):
        create_table(tmp_path / "t", record_key="id", index=memory_url)


@pytest.mark.parametrize(
    "content", [b"{", b"{}", b"[1]", b'{"version": 9, "archive": null, "digest": null, "files": []}']
)
def test_damaged_archive_plan_is_named(trips: Table, content: bytes) -> None:
    _own(trips, ".rli/archiving/deadbeef/plan.json").write_bytes(content)

    with pytest.raises(CorruptTableError, match="archiving/deadbeef"):
        commit_version(trips, 1)


@pytest.mark.parametrize("content", [b"{", b"{}", b"[1]", b"null"])
def test_a_damaged_manifest_is_named(trips: Table, content: bytes) -> None:
    manifest = _own(trips, ".rli/work", DEAD, "manifest.json")
    manifest.write_bytes(content)

    with pytest.raises(CorruptTableError, match=r"manifest\.json"):
        commit_version(trips, 1)
