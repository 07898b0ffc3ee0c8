from __future__ import annotations

from pathlib import Path

import pytest

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.metadata.group_slices import GroupSlice, group_slices
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.rollback_metadata import RollbackMetadata
from rli.hudi.timeline.timeline import Timeline, load_timeline
from rli.storage import Storage, StoredFile

T = [f"2026010112000{number}000" for number in range(10)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_late_commits_stay_over_a_compaction(folder: Path) -> None:
    metadata = _timeline(
        folder / "m", 2, f"{T[1]}_{T[5]}.deltacommit", f"{T[3]}_{T[4]}.commit", f"{T[2]}_{T[2]}.deltacommit"
    )
    instants = ValidInstants(_timeline(folder / "d", 2), metadata)
    found = _slice(
        instants, 2, f"g-0000-0_1_{T[3]}.hfile", f".g-0000-0_{T[1]}.log.1_0-0-0", f".g-0000-0_{T[2]}.log.1_0-0-0"
    )
    assert found.base_instant == T[3]
    assert [name.instant for name in found.names] == [T[1]]


def test_pending_compactions_do_not_count(folder: Path) -> None:
    metadata = _timeline(folder / "m", 1, f"{T[1]}.deltacommit", f"{T[3]}.compaction.requested", f"{T[4]}.deltacommit")
    instants = ValidInstants(_timeline(folder / "d", 1), metadata)
    names = (
        f"g-0000-0_1_{T[1]}.hfile",
        f"g-0000-0_1_{T[3]}.hfile",
        f".g-0000-0_{T[3]}.log.1_0",
        f".g-0000-0_{T[1]}.log.10_0",
    )
    found = _slice(instants, 1, *names, f".g-0000-0_{T[1]}.log.9_0", f".g-0000-0_{T[0]}.log.1_0")
    assert found.base_instant == T[1]
    assert [(name.instant, name.version) for name in found.names] == [(T[1], 9), (T[1], 10), (T[3], 1)]


def test_only_completed_instants_are_valid(folder: Path) -> None:
    data = _timeline(folder / "d", 1, f"{T[2]}.commit", f"{T[4]}.inflight", f"{T[5]}.clean")
    own = [T[1], T[3], T[8] + "010"]
    changes = [f"{time}.deltacommit" for time in (T[2], T[4], T[5], T[9], *own)]
    instants = ValidInstants(data, _timeline(folder / "m", 1, *changes, f"{T[6]}.deltacommit.inflight"))
    assert [time for time in (*T, *own[2:]) if instants.is_valid(time)] == [T[1], T[2], T[3], T[5], T[8] + "010"]
    assert instants.are_ahead


def test_undone_instants_never_count(folder: Path) -> None:
    rollback = RollbackMetadata(T[4], T[3], "commit", 1).to_avro()
    names = f"{T[2]}_{T[2]}.commit", f"{T[4]}_{T[5]}.rollback"
    data = _timeline(folder / "d", 2, *names, content=rollback)
    metadata = _timeline(folder / "m", 2, f"{T[2]}_{T[2]}.deltacommit", f"{T[3]}_{T[3]}.deltacommit")
    instants = ValidInstants(data, metadata)
    assert instants.is_valid(T[2])
    assert not instants.is_valid(T[3])
    assert not instants.are_ahead


def test_timelines_in_step(folder: Path) -> None:
    data = _timeline(folder / "d", 2, f"{T[2]}_{T[3]}.commit", f"{T[5]}.commit.requested")
    metadata = _timeline(folder / "m", 2, *(f"{time}_{time}.deltacommit" for time in ("0" * 17, T[1], T[2], T[5])))
    assert not ValidInstants(data, metadata).are_ahead


def test_later_states_reach_builds(folder: Path) -> None:
    build = _timeline(folder / "m", 2, f"{T[2]}_{T[2]}.deltacommit")
    before, after = f"{T[0]}_{T[1]}.commit", f"{T[3]}_{T[4]}.commit"
    data = [_timeline(folder / str(place), 2, *names) for place, names in enumerate([[before], [before, after]])]
    pending = _timeline(folder / "pending", 2, after, f"{T[1]}.commit.requested")
    assert [len(ValidInstants(state, build).shown_beyond(T[5])) for state in (*data, pending)] == [1, 0, 1]


def test_covering_states_reach_builds(folder: Path) -> None:
    build = _timeline(folder / "m", 1, f"{T[3]}010.deltacommit")
    states = [[f"{T[3]}.commit"], [f"{T[4]}.commit"], [f"{T[2]}.inflight", f"{T[3]}.commit"], [f"{T[2]}.commit"]]
    data = [_timeline(folder / str(place), 1, *names) for place, names in enumerate(states)]
    assert [len(ValidInstants(state, build).shown_beyond(T[5])) for state in data] == [0, 0, 1, 1]
    restore = _timeline(folder / "r", 1, f"{T[3]}003.deltacommit")
    assert ValidInstants(data[0], restore).shown_beyond("")


def test_foreign_files_are_refused(folder: Path) -> None:
    instants = ValidInstants(_timeline(folder / "d", 2), _timeline(folder / "m", 2))
    with pytest.raises(UnsupportedTableError):
        _slice(instants, 2, f"g-0000-0_1_{T[1]}_1.log.hfile")
    with pytest.raises(CorruptTableError):
        _slice(instants, 2, f"g-0000-0_1_{T[1]}.parquet")


def _timeline(folder: Path, layout: int, *names: str, content: bytes = b"{}") -> Timeline:
    where = TimelineLayout.of(layout)
    for name in names:
        path = folder / where.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return load_timeline(Storage(str(folder)), where)


def _slice(instants: ValidInstants, layout: int, *names: str) -> GroupSlice:
    (found,) = group_slices([StoredFile(name, 1) for name in names], instants, by_completion=layout > 1)
    return found
