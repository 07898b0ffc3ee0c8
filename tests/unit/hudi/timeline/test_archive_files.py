"""The files of the archive, in both of Hudi's formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rli.errors import CorruptTableError
from rli.hudi.timeline import archive_history, archive_log
from rli.hudi.timeline.archive import Archive
from rli.hudi.timeline.archive_history import ArchivedInstant, History
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import list_instants
from rli.storage import Storage

TIMES = ["20240531120000000", "20240531120001000", "20240531120002000"]
COMMIT = {
    "partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/f", "numWrites": 3, "unknown": 1, "cdcStats": None}]},
    "extraMetadata": {"schema": "{}", "nothing": None},
    "operationType": "UPSERT",
    "unknown": {},
}


def test_log_files_are_numbered_on() -> None:
    assert archive_log.newest_files([]) == []
    assert archive_log.next_file_name(None) == ".commits_.archive.1_1-0-1"
    names = [".commits_.archive.9_1-0-1", ".commits_.archive.10_1-0-1", "mergeArchivePlan", ".commits_.archive.x"]
    newest = archive_log.newest_files(names)
    assert newest == [names[1], names[0]]
    assert archive_log.next_file_name(newest[0]) == ".commits_.archive.11_1-0-1"


def test_log_file_reads_back() -> None:
    entries = [
        archive_log.entry(TIMES[0], "commit", "INFLIGHT", None),
        archive_log.entry(TIMES[0], "commit", "COMPLETED", None),
        archive_log.entry(TIMES[1], "clean", "COMPLETED", None),
    ]
    content = archive_log.to_log_file(entries)
    assert archive_log.completed_entries(content * 2, "x") == {(TIMES[0], "commit"), (TIMES[1], "clean")}
    # A writer died in the middle of the last block.
    for cut in (7, 10, 30, 300, len(content) - 40):
        assert archive_log.completed_entries(content[:cut], "x") == set()
        assert len(archive_log.completed_entries(content + content[:cut], "x")) == 2


def test_damaged_log_file_is_named() -> None:
    content = bytearray(archive_log.to_log_file([archive_log.entry(TIMES[0], "commit", "COMPLETED", None)]))
    content[40:60] = bytes(20)
    with pytest.raises(CorruptTableError, match="archive is damaged: file=x"):
        archive_log.completed_entries(bytes(content), "x")


def test_foreign_commits_use_layout_1(tmp_path: Path) -> None:
    storage, layout = Storage(str(tmp_path)), TimelineLayout.of(1)
    folder = tmp_path / ".hoodie"
    folder.mkdir()
    (folder / f"{TIMES[0]}.commit").write_text(json.dumps(COMMIT))
    replaced = {**COMMIT, "partitionToReplaceFileIds": {"p": ["f"]}}
    (folder / f"{TIMES[1]}.replacecommit").write_text(json.dumps(replaced))
    archive = Archive(storage, layout)
    assert archive.is_empty()
    files = [[instant] for instant in list_instants(storage, layout)]
    file = archive.file_for(files)
    assert file is not None
    assert file.path == ".hoodie/archived/.commits_.archive.1_1-0-1"
    found = archive_log.completed_entries(file.content, "x")
    assert found == {(TIMES[0], "commit"), (TIMES[1], "replacecommit")}
    storage.create(file.path, file.content)
    assert not archive.is_empty()
    assert archive.file_for(files) is None


def test_unreadable_commits_are_not_archived(tmp_path: Path) -> None:
    storage, layout = Storage(str(tmp_path)), TimelineLayout.of(1)
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / f"{TIMES[0]}.commit").write_text("{")
    with pytest.raises(CorruptTableError, match=rf"cannot be archived.*file=\.hoodie/{TIMES[0]}\.commit"):
        Archive(storage, layout).file_for([list_instants(storage, layout)])


def _archived(time: str) -> ArchivedInstant:
    return ArchivedInstant(time, f"{int(time) + 500}", "commit", b"content", None)


def test_each_manifest_lists_all_earlier_files(tmp_path: Path) -> None:
    history = History(Storage(str(tmp_path)), "history")
    assert history.is_empty()
    for times in (TIMES[:2], TIMES[2:], TIMES[2:]):
        instants = [_archived(time) for time in times]
        content = archive_history.to_parquet(instants)
        history.storage.write_bytes(f"history/{archive_history.file_name(instants)}", content)
        history.add(archive_history.file_name(instants), len(content), history.storage.create)
    assert (tmp_path / "history" / "_version_").read_text() == "2"
    files = json.loads((tmp_path / "history" / "manifest_2").read_text())["files"]
    assert [file["fileName"] for file in files] == [
        f"{TIMES[0]}_{TIMES[1]}_0.parquet",
        f"{TIMES[2]}_{TIMES[2]}_0.parquet",
    ]
    assert history.since(TIMES[1]) == {(time, "commit") for time in TIMES}
    assert history.since(TIMES[2]) == {(TIMES[2], "commit")}
    # Hudi removes this file before it writes it again.
    (tmp_path / "history" / "_version_").unlink()
    assert history.since(TIMES[2]) == {(TIMES[2], "commit")}
    (tmp_path / "history" / "manifest_2").write_text("{")
    with pytest.raises(CorruptTableError, match="file=history/manifest_2"):
        history.add("x.parquet", 1, history.storage.create)


def test_names_tell_last_archived_instant() -> None:
    listed = [
        "_version_",
        "manifest_2",
        "20260101000000000_20260102000000000_0.parquet",
        "1_20260101000000000_1.parquet",
    ]
    assert archive_history.last_archived(listed) == "20260102000000000"
    assert archive_history.last_archived(listed[:2]) == ""
    assert archive_history.last_archived([*listed, ".commits_.archive.1_1-0-1"]) is None
