"""Merge-on-read tables while Apache Hudi writes them: after each of its steps, rli reads the records that Hudi reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

import rli
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import newest_only, with_hudi
from tests.support.merge_on_read import Follower, has_metadata, options, require_equal, rows, versions

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P56")]

# Letters and ordering values of changes to one key: U an update, D a record marked as deleted, X a delete by Hudi's operation.
CHANGES: Final = [
    "U5", "D5", "X", "U30 U20", "D50 U40", "X U5", "U30 D20", "U10", "D10", "X D9", "X D12 U11", "X U-5", "X D-5", "X U5 D3",
    "X U5 D7", "U30 X U20", "D50 X U5", "X D9 U9", "U15 U12 D13", "D30 U20",
]  # fmt: skip


def require_states(path: Path, states: Mapping[str, list[tuple[str, int, str]]]) -> list[str]:
    """Each past state is read as it was, or refused because it was cleaned; returns the instants of the states that were read."""
    read = []
    for instant, expected in states.items():
        # Others are refused.
        with suppress(rli.InstantNotFoundError):
            assert versions(rli.open_table(path).read(as_of=instant)) == expected
            read.append(instant)
    return read


@newest_only
def test_changes_of_a_key_equal_hudi(engine: HudiEngine, tmp_path: Path) -> None:
    path, given = tmp_path / "trips", options(engine, metadata=False)
    insert = {**given, "hoodie.datasource.write.operation": "bulk_insert"}
    delete = {**given, "hoodie.datasource.write.operation": "delete"}
    engine.write(path, rows(*((changes, 10, "base", False) for changes in CHANGES)), insert, "overwrite")
    copy = Follower(path)
    for step in range(3):
        done = {changes: changes.split()[step] for changes in CHANGES if len(changes.split()) > step}
        removed = [key for key, change in done.items() if change == "X"]
        changed = [(key, int(to[1:]), str(step), to[0] == "D") for key, to in done.items() if to != "X"]
        if removed:
            engine.write(path, rows(*((key, 0, "", False) for key in removed)), delete)
        engine.write(path, rows(*changed), given)
        require_equal(engine, path)
        copy.require_equal()


@with_hudi("1.2.0", in_soak=("0.15.0",))
def test_steps_of_a_table_equal_hudi(engine: HudiEngine, tmp_path: Path) -> None:
    path, given = tmp_path / "trips", options(engine, metadata=has_metadata(engine))
    states: dict[str, list[tuple[str, int, str]]] = {}

    def write(changes: Sequence[tuple[str, int, str, bool]], more: dict[str, str] | None = None) -> None:
        engine.write(path, rows(*changes), {**given, **(more or {})})
        require_equal(engine, path)
        table = rli.open_table(path)
        states[table.history()[-1].time] = versions(table.read())

    write([(f"k{number}", 10, "a", False) for number in range(9)])
    write([("k0", 5, "b", False), ("k1", 10, "b", False), ("k2", 30, "b", False), ("k3", 30, "b", True)])
    write([("k4", 0, "", False)], {"hoodie.datasource.write.operation": "delete"})
    before = versions(rli.open_table(path).read())
    write([("k2", 40, "c", False), ("k5", 40, "c", False), ("new", 1, "c", False)])
    undone = max(states)
    name = f"merged_{engine.version.replace('.', '_')}"
    engine.sql(f"create table {name} using hudi location '{path}'")
    engine.sql(f"call rollback_to_instant(table => '{name}', instant_time => '{undone}')")
    del states[undone]
    assert versions(rli.open_table(path).read()) == before
    require_equal(engine, path)
    compacting = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    copy = Follower(path)
    write([("k6", 50, "d", False)], compacting)
    write([("k6", 40, "e", False), ("k7", 40, "e", False)])
    copy.require_equal()
    assert require_states(path, states) == [*states]
    for step in "fg":
        write([("k8", 60, step, False)], {**compacting, "hoodie.cleaner.commits.retained": "1"})
    assert require_states(path, states)
    assert min(states) not in require_states(path, states)


@pytest.mark.soak
@newest_only
def test_log_compactions_of_hudi(engine: HudiEngine, tmp_path: Path) -> None:
    """Joined blocks count once. A file group with a pending plan takes log files, and is compacted by nobody else."""
    path, given = tmp_path / "trips", options(engine, metadata=False)
    engine.write(path, rows(*((f"k{number}", 1, "a", False) for number in range(9))), given, "overwrite")
    joining = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "2"}
    for ts in (5, 4, 6):
        changed = rows((f"k{ts}", 3, "late", False), ("k1", ts, str(ts), False), (f"k{ts - 3}", 9, "", ts == 6))
        engine.write(path, changed, {**given, **(joining if ts == 6 else {})})
    planned = [*path.rglob("*.logcompaction.requested")]
    assert len(planned) == 1
    require_equal(engine, path, is_read_by_rust=False)
    engine.write(path, rows(("k2", 12, "z", False)), given)
    require_equal(engine, path, is_read_by_rust=False)
    expected, instant = versions(rli.open_table(path).read()), planned[0].name.partition(".")[0]
    # As if its process had died before the first file.
    for file in [
        *path.rglob(f"{instant}*.deltacommit"),
        *path.rglob(f"{instant}.*inflight"),
        *path.rglob(f".*_{instant}.log*"),
    ]:
        file.unlink()
    table = rli.open_table(path)
    assert versions(table.read()) == expected
    table.index.bootstrap("simple:")
    table = rli.open_table(path)
    assert table.upsert(rows(("k8", 20, "ours", False))).files_appended == 1
    assert table.compact().file_groups == 0
    require_equal(engine, path, is_read_by_rust=False)
