"""The record index with ``?scope=partition&partitions=REGEX``: a job loads the partitions that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rli import IndexMismatchError, InvalidInputError, Scope, SettingsError, Table, create_table, open_index, open_table
from rli.index_urls import IndexUrl
from tests.support.index_kinds import stored_rows
from tests.support.tables import check_stored, records, turn_into_foreign_commit

STORED = [("a", "x", 1, 1.0), ("a", "xy", 1, 1.0), ("a", "z", 1, 1.0), ("b", "z", 1, 1.0)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with an index of all partitions in each process; each commit has file groups of its own."""
    created = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index="memory:?scope=partition",
        small_file_size=0,
    )
    created.upsert(records(*STORED))
    return created


@pytest.fixture
def job(table: Table) -> Iterator[Table]:
    """The same table, as a job has it that knows the partitions ``x`` and ``xy``."""
    with open_table(table.location, index="memory:?scope=partition&partitions=xy?") as opened:
        yield opened


def test_job_knows_matching_partitions_only(table: Table, job: Table) -> None:
    result = job.upsert(records(("a", "x", 2, 2.0), ("new", "xy", 2, 2.0)))
    assert (result.inserted, result.updated) == (1, 1)
    assert table.upsert(records(("new", "xy", 3, 3.0), ("new", "z", 3, 3.0))).updated == 1
    assert job.insert(records(("new", "xy", 4, 4.0), ("new", "x", 4, 4.0))).inserted == 1
    for opened, entries in ((table, 7), (job, 4)):
        check_stored(opened)
        assert opened.verify_index().records == opened.index.stats().entries == entries


def test_what_needs_other_partitions_is_refused(table: Table, job: Table) -> None:
    before = stored_rows(table)
    with pytest.raises(InvalidInputError, match=r"partition=z partitions=xy\? index=memory:"):
        job.upsert(records(("a", "x", 2, 2.0), ("a", "z", 2, 2.0)))
    for ask in (job.delete, job.lookup, job.get):
        with pytest.raises(InvalidInputError, match=r"in every partition: partition=z partitions=xy\?"):
            ask(["a"])
    assert stored_rows(table) == before
    check_stored(table)


@pytest.mark.parametrize("url", ["memory:", "lmdb://{folder}/i"])
def test_first_write_elsewhere_is_refused(tmp_path: Path, url: str) -> None:
    index = f"{url.format(folder=tmp_path)}?scope=partition&partitions=xy?"
    table = create_table(tmp_path / "first", record_key="id", partition_by="city", ordering="ts", index=index)
    with pytest.raises(InvalidInputError, match=r"partition=z partitions=xy\?"):
        table.upsert(records(("a", "x", 1, 1.0), ("a", "z", 1, 1.0)))
    assert not stored_rows(table)
    assert table.upsert(records(("a", "x", 1, 1.0))).inserted == 1


def test_job_follows_services_and_engines(table: Table, job: Table) -> None:
    job.upsert(records(("new", "x", 2, 2.0)))
    instant = table.upsert(records(("new", "z", 2, 2.0), ("new", "xy", 2, 2.0))).instant
    turn_into_foreign_commit(table, instant or "")
    assert job.insert(records(("new", "xy", 3, 3.0))).inserted == 0
    assert job.cluster(smaller_than=1 << 30).files_replaced == 6
    check_stored(job)
    assert table.delete(["new"]).deleted == 3
    check_stored(job)
    job.rollback("last")
    assert job.insert(records(("new", "x", 3, 3.0))).inserted == 0
    for opened in (table, job):
        check_stored(opened)


def test_store_index_may_know_some_partitions(table: Table, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/index?scope=partition&partitions=x.*"
    assert table.bootstrap_index(url) == 2
    with open_table(table.location) as again:
        assert again.index.url == url
        assert again.upsert(records(("a", "xyz", 2, 2.0), ("a", "xy", 2, 2.0))).inserted == 1
        with pytest.raises(InvalidInputError, match="partition=z"):
            again.insert(records(("c", "z", 2, 2.0)))
        check_stored(again)
        # The other partitions are indexed again.
        assert again.migrate_index(f"lmdb://{tmp_path}/all?scope=partition").records == 5
        assert again.insert(records(("c", "z", 2, 2.0))).inserted == 1
        check_stored(again)
    with pytest.raises(IndexMismatchError, match=r"another partitions: .* partitions=x\.\*"):
        open_index(f"lmdb://{tmp_path}/index?scope=partition")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("partitions=x", "add scope=partition"),
        ("scope=partition&partitions=x(", "not a regular expression"),
        ("scope=partition&partitions=x(%3F!y)", "not a regular expression"),
        ("scope=partition&partitions=%ED%A0%80", "not a regular expression"),
        ("scope=partition&partitions=x\ud800", "not a Unicode string"),
        ("scope=partition&partitions=x{99999999999}", "not a regular expression"),
        ("scope=partition&partitions=x&partitions=y", "given more than once"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, options: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        create_table(tmp_path / "t", record_key="id", partition_by="city", index=f"memory:?{options}")
    assert not list(tmp_path.glob("**/hoodie.properties"))


@pytest.mark.parametrize("pattern", ["day=2026-1[12]-.*", "a&b", "50%", "größer|k?x+", "a#b c"])
def test_every_pattern_survives_in_a_url(pattern: str) -> None:
    written = IndexUrl("lmdb:///a?map_size=1", Scope.PARTITION, pattern).full
    assert IndexUrl.parse(written).partitions == pattern
    assert IndexUrl.parse(written).full == written
