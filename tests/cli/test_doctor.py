from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rli as library
from tests.cli.conftest import Outcome, Rli
from tests.support.stored_indexes import create_index
from tests.support.tables import turn_into_foreign_commit


def problems(outcome: Outcome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = outcome.json["findings"]
    return [finding for finding in found if finding["verdict"] == "problem"]


def test_a_sound_table(rli: Rli, trips: str) -> None:
    report = rli("doctor", trips, "--json").json
    assert report["problems"] == 0
    checks = {finding["check"] for finding in report["findings"]}
    assert {"table", "timeline", "base files", "store", "write and read", "settings", "entries", "sync"} <= checks
    assert "ok      sync: the index has applied all commits" in rli("doctor", trips).out


def test_a_store_url(rli: Rli, trips: str) -> None:
    url = library.open_table(trips).settings.index_url
    assert rli("doctor", url, "--json").json["problems"] == 0
    assert rli("doctor", f"{url}/nowhere", status=1).out.startswith("problem store: there is no index in this folder")


def test_a_memory_store_is_warned_of(rli: Rli) -> None:
    library.create_index("memory:doctor")
    report = rli("doctor", "memory:doctor", "--json").json
    assert report["problems"] == 0
    assert any("loses everything" in finding["detail"] for finding in report["findings"])


def test_tombstones_kept_forever_are_warned_of(rli: Rli, tmp_path: Path) -> None:
    many = [f"{number:06d}" for number in range(100_001)]
    for url, is_warned in ((f"sqlite://{tmp_path}/i.db", True), (f"lmdb://{tmp_path}/i", False)):
        with library.create_index(url) as index, index.begin() as transaction:
            transaction.stage_deletes(many)
            transaction.commit()
        found = {finding["check"]: finding["verdict"] for finding in rli("doctor", url, "--json").json["findings"]}
        assert found.get("tombstones") == ("warning" if is_warned else None)


def test_no_table(rli: Rli) -> None:
    [problem] = problems(rli("doctor", "nowhere", "--json", status=1))
    assert problem["check"] == "table"
    assert problem["advice"]


def test_a_table_without_its_index(rli: Rli, trips: str) -> None:
    shutil.rmtree(f"{trips}/.hoodie/.rli/index")
    [problem] = problems(rli("doctor", trips, "--json", status=1))
    assert problem["check"] == "store"
    assert "bootstrap" in problem["advice"] or "create" in problem["advice"]


def test_an_index_of_another_table(rli: Rli, trips: str) -> None:
    rli("create", "other", "--record-key", "id")
    url = library.open_table("other").settings.index_url
    [problem] = problems(rli("doctor", trips, "--index", url, "--json", status=1))
    assert "other settings" in problem["detail"]


def test_a_damaged_index_file(rli: Rli, trips: str) -> None:
    Path(trips, ".hoodie/.rli/index/data.mdb").write_bytes(b"nothing that LMDB knows" * 1000)
    [problem] = problems(rli("doctor", trips, "--json", status=1))
    assert "damaged" in problem["detail"]


def test_an_index_that_is_behind(rli: Rli, trips: str) -> None:
    index = Path(trips, ".hoodie/.rli/index")
    shutil.copytree(index, "before")
    rli("delete", trips, "k2")
    shutil.rmtree(index)
    shutil.copytree("before", index)
    [problem] = problems(rli("doctor", trips, "--json", status=1))
    assert problem["check"] == "sync"
    assert problem["advice"] == "run: rli index sync trips"
    rli("index", "sync", trips)
    rli("doctor", trips)


def test_missing_and_damaged_base_files(rli: Rli, trips: str) -> None:
    oslo, bergen = (
        max(Path(trips, city).glob("*.parquet"), key=lambda p: p.stat().st_mtime) for city in ("Oslo", "Bergen")
    )
    oslo.unlink()
    bergen.write_bytes(bergen.read_bytes()[:100])
    found = problems(rli("doctor", trips, "--json", status=1))
    assert oslo.name in found[0]["detail"]
    assert bergen.name in found[1]["detail"]


def test_unknown_parquet_file_is_named(rli: Rli, trips: str) -> None:
    Path(trips, "unknown.parquet").write_bytes(b"")
    found = problems(rli("doctor", trips, "--json", status=1))
    assert [problem["check"] for problem in found] == ["base files"]
    assert "unknown.parquet" in found[0]["detail"]


def test_a_malformed_timeline(rli: Rli, trips: str) -> None:
    commit = next(Path(trips, ".hoodie").glob("*.commit"))
    commit.write_text("{")
    assert problems(rli("doctor", trips, "--json", status=1))[0]["check"] == "timeline"


@pytest.mark.parametrize("left", [b"", b"{"])
def test_a_torn_commit(rli: Rli, left: bytes) -> None:
    rli("create", "torn", "--record-key", "id", "--durability", "os")
    Path("rows.csv").write_text("id,name\n1,a\n")
    for _ in range(2):
        rli("upsert", "torn", "rows.csv")
    commit = max(Path("torn/.hoodie").glob("*.commit"))
    commit.write_bytes(left)
    # The machine has started since.
    os.utime(commit, (0, 0))
    [torn] = [found for found in problems(rli("doctor", "torn", "--json", status=1)) if found["check"] == "power"]
    assert commit.name in torn["detail"]
    assert "the next write rolls it back" in torn["advice"]
    rli("upsert", "torn", "rows.csv")
    assert rli("doctor", "torn", "--json").json["problems"] == 0


def test_what_a_dead_writer_left(rli: Rli, trips: str) -> None:
    Path(trips, ".hoodie/.rli/work/20240101000000000").mkdir(parents=True)
    report = rli("doctor", trips, "--json").json
    [warning] = [finding for finding in report["findings"] if finding["check"] == "writers"]
    assert "20240101000000000" in warning["detail"]


def test_unkeyed_digests_are_warned_of(rli: Rli, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/digests"
    with create_index(url, key_mode="digest") as index:
        assert rli("doctor", url, "--json").json["warnings"] == 0
        earlier = index.settings.model_copy(update={"digest": "mmh3_128", "digest_key": None})
        assert index.store.compare_and_set("settings", index.store.read_control("settings"), earlier.to_json())
    report = rli("doctor", url, "--json").json
    assert [found["check"] for found in report["findings"] if found["verdict"] == "warning"] == ["digests"]


def test_engines_without_lock_are_warned_of(rli: Rli, trips: str) -> None:
    table = library.open_table(trips)
    assert not lock_findings(rli, trips)
    foreign = table.timeline()[-1].time
    turn_into_foreign_commit(table, foreign)
    table.sync_index()
    table.delete([table.read().column("id")[0].as_py()])
    [finding] = lock_findings(rli, trips)
    assert finding["verdict"] == "warning"
    assert f"of_others=1 last={foreign}" in finding["detail"]
    assert "beside-hudi-writers" in finding["advice"]
    [engine] = findings_of(rli, trips, "other engines")
    assert f"instant={foreign} action=commit operation=UPSERT table_version=6" in engine["detail"]
    assert "hoodie.write.auto.upgrade=false" in engine["detail"]


def test_locks_are_judged(rli: Rli, tmp_path: Path) -> None:
    path = str(tmp_path / "locked")
    library.create_table(path, record_key="id", lock="filesystem")
    [finding] = lock_findings(rli, path)
    assert finding["verdict"] == "ok"
    with Path(path, ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.write.lock.filesystem.expire=1\n")
    [_, expiry] = lock_findings(rli, path)
    assert expiry["verdict"] == "warning"
    with Path(path, ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.clean.failed.writes.policy=EAGER\n")
    [finding] = lock_findings(rli, path, status=1)
    assert finding["verdict"] == "problem"
    assert "LAZY" in finding["advice"]


SAFE_JOB = """
hoodie.write.lock.provider              org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider
hoodie.write.concurrency.mode=optimistic_concurrency_control
hoodie.clean.failed.writes.policy=LAZY
hoodie.write.auto.upgrade=false
hoodie.write.table.version=6
hoodie.metadata.auto.delete.partitions=false
hoodie.metadata.index.column.stats.enable=false
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", []),
        ("hoodie.write.lock.provider=", ["hoodie.write.lock.provider=(not set)"]),
        ("hoodie.write.concurrency.mode=SINGLE_WRITER", ["hoodie.write.concurrency.mode=SINGLE_WRITER"]),
        ("hoodie.clean.failed.writes.policy=EAGER", ["hoodie.clean.failed.writes.policy=EAGER"]),
        ("hoodie.write.lock.filesystem.path=/locks", ["hoodie.write.lock.filesystem.path=/locks, and rli"]),
        ("hoodie.write.auto.upgrade=true", ["hoodie.write.auto.upgrade=true"]),
        ("hoodie.write.table.version=9", ["hoodie.write.table.version=9"]),
        ("hoodie.metadata.enable=false", ["hoodie.metadata.enable=false"]),
        ("hoodie.metadata.auto.delete.partitions=true", ["hoodie.metadata.auto.delete.partitions=true"]),
        ("hoodie.metadata.index.column.stats.enable=", ["hoodie.metadata.index.column.stats.enable=(not set)"]),
        ("hoodie.index.type=BUCKET", ["hoodie.write.lock.conflict.resolution.strategy=(not set)"]),
    ],
)
def test_options_of_jobs_are_judged(rli: Rli, tmp_path: Path, line: str, found: list[str]) -> None:
    library.create_table(tmp_path / "t", record_key="id", lock="filesystem", metadata=["files"])
    told = job_findings(rli, tmp_path / "t", line)
    assert (
        [finding["detail"].startswith(what) for finding, what in zip(told, found, strict=True)] == [True]
        if found
        else [finding["verdict"] for finding in told] == ["ok"]
    )


def test_early_cleans_are_warned_of(rli: Rli, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with library.create_table(path, record_key="id", lock="filesystem", metadata=["files"]) as table:
        rows = [pa.table({"id": ["a"], "n": [number]}) for number in range(11)]
        slow = table.upsert(rows[0]).instant
        assert slow is not None
        turn_into_foreign_commit(table, slow)
        for batch in rows[1:]:
            table.upsert(batch)
    assert [found["verdict"] for found in job_findings(rli, path)] == ["ok"]
    # The write of Hudi completed behind the others.
    Path(path, ".hoodie", f"{slow}.commit").touch()
    [found] = job_findings(rli, path)
    assert found["verdict"] == "warning"
    assert f"10 later commits completed during the write {slow}" in found["detail"]
    unneeded = ("hoodie.cleaner.policy=KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.automatic=false")
    for line in ("hoodie.clean.commits.retained=11", "hoodie.cleaner.commits.retained=11", *unneeded):
        assert [found["verdict"] for found in job_findings(rli, path, line)] == ["ok"]


def test_heartbeats_tell_who_lives(rli: Rli, trips: str) -> None:
    instant = "20260101000000000"
    Path(trips, ".hoodie", f"{instant}.commit.requested").touch()
    [finding] = findings_of(rli, trips, "writers")
    assert "no recent heartbeat was found" in finding["detail"]
    assert "EAGER" in finding["advice"]
    Path(trips, ".hoodie/.heartbeat").mkdir()
    Path(trips, ".hoodie/.heartbeat", instant).touch()
    [finding] = findings_of(rli, trips, "writers")
    assert "a writer of Hudi is at work" in finding["detail"]
    assert finding["verdict"] == "ok"


def job_findings(rli: Rli, table: Path, line: str = "") -> list[dict[str, Any]]:
    """What is found about a job whose options are safe but for one line."""
    options = table.with_name("job.properties")
    options.write_text(f"{SAFE_JOB}{line}\n")
    report = rli("doctor", f"{table}", "--hudi-options", f"{options}", "--json", status=None).json
    return [finding for finding in report["findings"] if finding["check"] == "job of Hudi"]


def lock_findings(rli: Rli, table: str, status: int = 0) -> list[dict[str, Any]]:
    return findings_of(rli, table, "lock", status)


def findings_of(rli: Rli, table: str, check: str, status: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rli("doctor", table, "--json", status=status).json["findings"]
    return [finding for finding in found if finding["check"] == check]


@pytest.mark.parametrize(
    "options", ["--on fare --using column_stats", "--on id --expr 'lower(id)'", "--on id --unique"]
)
def test_invalid_index_is_built_again(rli: Rli, trips: str, options: str) -> None:
    rli("index", "create", trips, "by_it", *shlex.split(options))
    assert "indexes on columns: indexes=by_it" in rli("doctor", trips).out
    if "--unique" in options:
        for home in Path(trips, ".hoodie/.rli").glob("index.*"):
            shutil.rmtree(home)
    else:
        rli("metadata", "disable", trips)
    [warning] = [one for one in rli("doctor", trips, "--json").json["findings"] if one["check"] == "indexes on columns"]
    assert warning["verdict"] == "warning"
    command = warning["advice"].partition("build it again: ")[2].partition(";")[0]
    rli(*shlex.split(command)[1:])
    assert "indexes on columns: indexes=by_it" in rli("doctor", trips).out
