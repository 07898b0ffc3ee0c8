"""How far clean, purge and archive may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli.errors import CorruptTableError
from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import load_timeline
from rli.storage import Storage
from rli.view.kept_instants import KeptInstants

T1, T2, T3, T4, T5, T6 = (f"2024053112000000{number}" for number in range(1, 7))


def kept(folder: Path, *files: str) -> KeptInstants:
    """What a timeline of such files keeps."""
    storage = Storage(str(folder))
    for name in files:
        is_empty = name.endswith(("requested", "inflight"))
        storage.make_folder(".hoodie")
        storage.write_bytes(f".hoodie/{name}", b"" if is_empty else CommitMetadata(()).to_json())
    return KeptInstants(load_timeline(storage, TimelineLayout.of(1)))


def test_the_last_commits_stay_readable(tmp_path: Path) -> None:
    found = kept(tmp_path, f"{T1}.commit", f"{T2}.commit", f"{T3}.commit")
    earliest = found.earliest_readable(2)
    assert earliest is not None
    assert earliest.time == T2
    limits = (found.earliest_journal(earliest), found.earliest_delete(earliest), found.earliest_active(earliest))
    assert limits == (T2, T2, T2)


def test_nothing_is_kept_without_commits(tmp_path: Path) -> None:
    assert kept(tmp_path, f"{T1}.commit.requested").earliest_readable(1) is None


def test_open_write_keeps_its_base(tmp_path: Path) -> None:
    found = kept(tmp_path, f"{T1}.commit", f"{T2}.commit", f"{T3}.commit.requested", f"{T4}.commit", f"{T5}.commit")
    earliest = found.earliest_readable(1)
    assert earliest is not None
    assert earliest.time == T2
    assert found.at_work == [T3]


def test_earliest_write_keeps_its_journals(tmp_path: Path) -> None:
    found = kept(tmp_path, f"{T1}.commit.requested", f"{T2}.commit", f"{T3}.commit")
    earliest = found.earliest_readable(1)
    assert earliest is not None
    assert earliest.time == T2
    assert found.earliest_journal(earliest) == found.earliest_active(earliest) == T1


def test_savepoint_keeps_journals_and_neighbour(tmp_path: Path) -> None:
    commits = [f"{time}.commit" for time in (T1, T2, T3, T4, T5, T6)]
    found = kept(tmp_path, *commits, f"{T3}.savepoint")
    earliest = found.earliest_readable(1)
    assert earliest is not None
    assert earliest.time == T6
    limits = (found.earliest_journal(earliest), found.earliest_delete(earliest), found.earliest_active(earliest))
    assert limits == (T3, T3, T2)


def test_archived_commit_with_savepoint_passes(tmp_path: Path) -> None:
    """As Hudi leaves it with ``hoodie.archive.beyond.savepoint``."""
    found = kept(tmp_path, f"{T1}.savepoint", f"{T2}.commit", f"{T3}.commit")
    found.require_saved(has_archive=lambda: True)
    with pytest.raises(CorruptTableError, match=f"savepoint={T1}"):
        found.require_saved(has_archive=lambda: False)


def test_lost_commit_with_savepoint_is_refused(tmp_path: Path) -> None:
    found = kept(tmp_path, f"{T1}.commit", f"{T2}.savepoint", f"{T3}.commit")
    found.require_saved(T1, has_archive=lambda: True)
    with pytest.raises(CorruptTableError, match=f"savepoint={T2}"):
        found.require_saved(has_archive=lambda: True)
