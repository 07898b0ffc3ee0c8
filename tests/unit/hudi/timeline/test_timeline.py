from __future__ import annotations

from pathlib import Path

import pytest

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.instant import InstantState
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline, load_timeline, read_commit
from rli.storage import Storage
from tests.support.hudi_tables import hudi_table_names, unzip_hudi_table

T1, T2, T3, T4, T5 = (f"2024053112000000{number}" for number in range(1, 6))
COMMIT = CommitMetadata(()).to_json()


def storage_with(folder: Path, *names: str, layout_version: int = 1) -> Storage:
    storage = Storage(str(folder))
    below = ".hoodie" if layout_version == 1 else ".hoodie/timeline"
    storage.make_folder(below)
    for name in names:
        empty = name.endswith(("requested", "inflight"))
        storage.write_bytes(f"{below}/{name}", b"" if empty else COMMIT)
    return storage


def times(timeline: Timeline) -> list[str]:
    return [instant.time for instant in timeline.completed_writes]


def test_each_instant_counts_once(tmp_path: Path) -> None:
    storage = storage_with(
        tmp_path,
        *(f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}.commit"),
        *(f"{T2}.replacecommit.requested", f"{T2}.replacecommit.inflight", f"{T2}.replacecommit"),
        *(f"{T3}.clean.requested", f"{T3}.clean.inflight", f"{T3}.clean"),
        *(f"{T4}.commit.requested", f"{T4}.inflight"),
        f"{T5}.rollback.requested",
    )
    timeline = load_timeline(storage, TimelineLayout.of(1))
    found = [(instant.time, instant.action, instant.state) for instant in timeline.instants]
    assert found == [
        (T1, "commit", InstantState.COMPLETED),
        (T2, "replacecommit", InstantState.COMPLETED),
        (T3, "clean", InstantState.COMPLETED),
        (T4, "commit", InstantState.INFLIGHT),
        (T5, "rollback", InstantState.REQUESTED),
    ]
    assert times(timeline) == [T1, T2]
    assert [instant.time for instant in timeline.completed] == [T1, T2, T3]
    assert [instant.time for instant in timeline.pending] == [T4, T5]
    assert timeline.latest_write == timeline.find(T2)
    assert timeline.latest_time == T5


def test_layout_2_orders_writes_by_completion(tmp_path: Path) -> None:
    storage = storage_with(
        tmp_path,
        *(f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}_{T5}.commit"),
        *(f"{T2}.clustering.requested", f"{T2}.clustering.inflight", f"{T2}_{T4}.replacecommit"),
        *(f"{T3}.commit.requested", f"{T3}.inflight"),
        layout_version=2,
    )
    timeline = load_timeline(storage, TimelineLayout.of(2))
    assert times(timeline) == [T2, T1]
    assert [instant.time for instant in timeline.pending] == [T3]
    assert timeline.first == T1
    assert timeline.latest_time == T5


def test_files_ignored_by_hudi_are_ignored(tmp_path: Path) -> None:
    storage = storage_with(
        tmp_path,
        f"{T1}.commit",
        f".{T1}.commit.crc",
        f".{T2}.commit.0f.tmp",
        "hoodie.properties",
        "notes.commit",
        f"{T2}.commit.bak",
        f"{T2}.unknownaction",
        ".aux/x.commit",
    )
    assert times(load_timeline(storage, TimelineLayout.of(1))) == [T1]


def test_compaction_of_a_birth_is_read(tmp_path: Path) -> None:
    """In the metadata table of version 6, both add digits to the instant of a commit."""
    storage = Storage(str(tmp_path))
    storage.write_bytes(f".hoodie/{T1}011001.commit", COMMIT)
    assert times(load_timeline(storage, TimelineLayout.of(1))) == [f"{T1}011001"]


@pytest.mark.parametrize(
    ("name", "content", "layout_version"),
    [
        (f"{T1}.commit", COMMIT, 2),
        (f"{T1}_{T2}.commit", COMMIT, 1),
        ("2024.commit", COMMIT, 1),
    ],
)
def test_broken_instants_are_reported(tmp_path: Path, name: str, content: bytes, layout_version: int) -> None:
    storage = Storage(str(tmp_path))
    storage.write_bytes(f".hoodie/{name}" if layout_version == 1 else f".hoodie/timeline/{name}", content)
    with pytest.raises(CorruptTableError, match=f"file=.*{name}"):
        load_timeline(storage, TimelineLayout.of(layout_version))


@pytest.mark.parametrize(("version", "completed"), [(1, ""), (2, "_20990101000000000")])
def test_trailing_empty_commits_are_incomplete(tmp_path: Path, version: int, completed: str) -> None:
    storage, layout = Storage(str(tmp_path)), TimelineLayout.of(version)
    for time, content in ((T1, COMMIT), (T2, b""), (T3, b"")):
        storage.write_bytes(layout.path(f"{time}{completed}.commit"), content)
    timeline = load_timeline(storage, layout)
    assert [instant.time for instant in timeline.completed_writes] == [T1]
    assert [instant.time for instant in timeline.pending] == [T2, T3]
    assert {instant.time for instant in timeline.torn} == {T2, T3}
    storage.write_bytes(layout.path(f"{T4}{completed}.commit"), COMMIT)
    with pytest.raises(CorruptTableError, match=f"file=.*{T2}"):
        load_timeline(storage, layout)


def test_emptied_commit_is_noticed(tmp_path: Path) -> None:
    """A power cut on a file server may empty a file that this process has listed before."""
    storage, layout = storage_with(tmp_path, f"{T1}.commit", f"{T2}.commit"), TimelineLayout.of(1)
    assert times(load_timeline(storage, layout)) == [T1, T2]
    storage.write_bytes(f".hoodie/{T2}.commit", b"")
    assert times(load_timeline(storage, layout)) == [T1]
    storage.write_bytes(f".hoodie/{T2}.commit", COMMIT)
    assert times(load_timeline(storage, layout)) == [T1, T2]


def test_equal_timelines_read_their_own_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, found = TimelineLayout.of(1), list[CommitMetadata]()
    for folder, operation in (("a", "UPSERT"), ("b", "DELETE")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        storage = storage_with(Path("t"))
        storage.write_bytes(f".hoodie/{T1}.commit", CommitMetadata((), operation=operation).to_json())
        timeline = load_timeline(storage, layout)
        found.append(read_commit(storage, timeline, timeline.instants[0]))
        assert timeline.storage is storage
    assert [commit.operation for commit in found] == ["UPSERT", "DELETE"]


def test_visible_are_completed_and_archived_writes(tmp_path: Path) -> None:
    timeline = load_timeline(
        storage_with(tmp_path, f"{T2}.commit", f"{T3}.inflight", f"{T4}.commit"), TimelineLayout.of(1)
    )
    assert timeline.first == T2
    visible = [time for time in (T1, T2, T3, T4, T5) if timeline.is_visible(time)]
    assert visible == [T1, T2, T4]


def test_dead_first_write_is_not_archived(tmp_path: Path) -> None:
    timeline = load_timeline(storage_with(tmp_path, f"{T2}.inflight", f"{T3}.commit"), TimelineLayout.of(1))
    assert timeline.first == T2
    assert not timeline.is_visible(T2)


def test_savepoint_hides_no_later_archived_write(tmp_path: Path) -> None:
    timeline = load_timeline(
        storage_with(tmp_path, f"{T1}.commit", f"{T1}.savepoint", f"{T3}.commit"), TimelineLayout.of(1)
    )
    assert timeline.first == T3
    assert timeline.is_visible(T1)
    assert timeline.is_visible(T2)


def test_a_table_without_writes_shows_nothing(tmp_path: Path) -> None:
    timeline = load_timeline(storage_with(tmp_path), TimelineLayout.of(1))
    assert timeline.latest_write is None
    assert timeline.latest_time is None
    assert not timeline.is_visible(T1)


def test_as_of_hides_later_instants(tmp_path: Path) -> None:
    timeline = load_timeline(
        storage_with(tmp_path, f"{T2}.commit", f"{T3}.commit", f"{T5}.commit"), TimelineLayout.of(1)
    )
    assert times(timeline.at(T4)) == [T2, T3]
    assert not timeline.at(T4).is_visible(T5)
    assert timeline.at(T1).latest_write is None
    assert timeline.at(T1).is_visible(T1)
    assert not timeline.at("20240531110000000").is_visible(T1)


def test_only_completed_writes_can_be_read(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, f"{T1}.commit", f"{T2}.inflight")
    timeline = load_timeline(storage, TimelineLayout.of(1))
    with pytest.raises(InstantNotFoundError, match=f"instant={T2}"):
        read_commit(storage, timeline, timeline.find(T2))
    with pytest.raises(InstantNotFoundError, match=f"instant={T5}"):
        timeline.find(T5)
    storage.delete_files([f".hoodie/{T1}.commit"])
    with pytest.raises(InstantNotFoundError, match=f"instant={T1}"):
        read_commit(storage, timeline, timeline.find(T1))


def test_another_commit_of_one_name(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, f"{T1}.commit")
    timeline = load_timeline(storage, TimelineLayout.of(1))
    for content in ({"a": "1"}, {"a": "1"}, {"b": "2"}, {"a": "1"}):
        commit = CommitMetadata((), extra=content)
        storage.write_bytes(f".hoodie/{T1}.commit", commit.to_json())
        assert read_commit(storage, timeline, timeline.find(T1)) == commit
    storage.write_bytes(f".hoodie/{T1}.commit", b"{")
    with pytest.raises(CorruptTableError, match=f"{T1}.commit"):
        read_commit(storage, timeline, timeline.find(T1))


@pytest.mark.parametrize("name", hudi_table_names("sample_table/**/*"))
def test_real_timelines_name_existing_files(tmp_path: Path, name: str) -> None:
    path = unzip_hudi_table(name, tmp_path)
    storage = Storage(str(path))
    timeline = load_timeline(storage, TimelineLayout.of(2 if (path / ".hoodie" / "timeline").exists() else 1))
    commits = [read_commit(storage, timeline, instant) for instant in timeline.completed_writes]
    stats = [stat for commit in commits for stat in commit.write_stats]
    assert bool(stats) == ("empty" not in name)
    assert all((path / stat.path).stat().st_size == stat.file_size for stat in stats if "/mor/" not in f"/{name}")
    logs = [stat for stat in stats if ".log." in stat.path]
    assert all(stat.appended_to is not None and stat.path.endswith(stat.appended_to.log_files[-1]) for stat in logs)
    assert [stat for stat in stats if stat.appended_to is not None] == logs
    assert timeline.pending == ()
    if timeline.layout.version == 1:
        assert [CommitMetadata.from_json(commit.to_json(), "copy") for commit in commits] == commits


def test_real_overwrite_names_replaced_files(tmp_path: Path) -> None:
    storage = Storage(str(unzip_hudi_table("sample_table/cow/v9_txns_simple_overwrite", tmp_path)))
    timeline = load_timeline(storage, TimelineLayout.of(2))
    assert timeline.latest_write is not None
    assert timeline.latest_write.action == "replacecommit"
    commit = read_commit(storage, timeline, timeline.latest_write)
    assert commit.operation == "INSERT_OVERWRITE_TABLE"
    assert {partition: len(file_ids) for partition, file_ids in commit.replaced_file_ids.items()} == {
        "apac": 1,
        "us": 2,
        "eu": 2,
    }
