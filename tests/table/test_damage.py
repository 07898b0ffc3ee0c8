"""Any file of a table and any record of its index may be damaged: all that users call ends, or says what is wrong."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rli import RliError, Table, create_table, open_table
from rli.settings import Maintenance
from rli.storage import Storage
from rli.store.registry import open_store
from rli.view.index_location import own_index_url
from tests.support.children import was_killed
from tests.support.damage import FUZZ_ROUNDS, damaged, limit_memory
from tests.support.tables import commit_version, records, turn_into_version_9

_CASES: Final = FUZZ_ROUNDS // 30
"""Damaged tables of each layout; each run draws others."""

_HELD: Final = ("lease", "writer/", "request/", "process/")
"""Records of who lives: one that names another host is waited for. tests/table/test_lease_breaking.py has them."""

CALLS: Final[tuple[Callable[[Table], object], ...]] = (
    lambda table: table.lookup(["a", "m", "n1", "new"]),
    lambda table: table.get(["a", "m", "n1", "new"]),
    lambda table: table.read(),
    lambda table: table.read(as_of=table.timeline()[-1].time),
    lambda table: commit_version(table, 9),
    lambda table: table.upsert(records(("new", "x", 9, 9.0)), transaction=("app", 3)),
    lambda table: table.upsert(records(("new", "x", 9, 9.0)), transaction=("app", 2)),
    lambda table: table.delete(["a", "n1"]),
    lambda table: table.verify_index(),
    lambda table: table.repair_index(),
    lambda table: table.sync_index(),
    lambda table: table.bootstrap_index(),
    lambda table: table.clean(keep_commits=1),
    lambda table: table.archive(keep_commits=2),
    lambda table: table.cluster(),
    lambda table: table.savepoint(),
    lambda table: table.rollback(table.timeline()[-1].time),
    lambda table: table.restore(table.timeline()[0].time),
    lambda table: table.index.stats(),
    lambda table: table.set_maintenance(Maintenance.off()),
)


@pytest.mark.parametrize("version", [6, 9])
def test_damage_ends_in_clear_errors(tmp_path: Path, version: int) -> None:
    assert not was_killed(_damage_and_use, tmp_path, version), "the process was killed"


def _damage_and_use(folder: Path, version: int) -> None:
    _make(folder, version)
    limit_memory()
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for case in range(_CASES):
        shutil.copytree(folder / "intact", folder / "table")
        what = _damage(folder / "table", rng)
        calls = rng.sample(CALLS, 4)
        (folder / "case").write_text(f"seed={seed} case={case} what={what}")
        try:
            with open_table(folder / "table") as table:
                for call in calls:
                    _attempt(call, table, f"seed={seed} case={case} what={what}")
        except RliError:
            pass
        shutil.rmtree(folder / "table")


def _attempt(call: Callable[[Table], object], table: Table, case: str) -> None:
    try:
        call(table)
    except RliError:
        pass
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}: {case}") from error


def _make(folder: Path, version: int) -> None:
    """A table with something of everything, at a place that its copies are put to."""
    table = create_table(
        folder / "table", record_key="id", partition_by="city", ordering="ts", maintenance=False, lease_seconds=1
    )
    if version == 9:
        turn_into_version_9(table)
    for number in range(3):
        commit_version(table, number)
    table.upsert(records(("t", "x", 1, 1.0)), transaction=("app", 2))
    table.archive(keep_commits=2)
    commit_version(table, 4)
    table.savepoint()
    commit_version(table, 5)
    table.rollback(table.timeline()[-1].time)
    table.cluster()
    table.clean(keep_commits=2)
    table.close()
    (folder / "table").rename(folder / "intact")


def _damage(table: Path, rng: random.Random) -> str:
    """Damage a file or a record of the index; says which."""
    if rng.random() < 0.3:
        return _damage_index(table, rng)
    files = sorted(path for path in table.rglob("*") if path.is_file() and ".hoodie/.rli/index" not in str(path))
    file = rng.choice(files)
    content = damaged(file.read_bytes(), rng)
    file.write_bytes(content)
    return f"{file} {content[:3000]!r}"


def _damage_index(table: Path, rng: random.Random) -> str:
    with open_store(own_index_url(Storage(str(table)))) as store:
        stored = [item for item in store.scan_control("") if not item[0].startswith(_HELD)]
        name, content = rng.choice(stored)
        changed = damaged(content, rng)
        assert store.compare_and_set(name, content, changed)
        return f"{name} {changed[:3000]!r}"
