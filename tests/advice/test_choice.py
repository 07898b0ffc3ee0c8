"""The choice keeps what a table needs, and orders kinds as their work is ordered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rli import Scope, TableType
from rli.advice.choice import Advice, Needs, advised
from rli.advice.statistics import BatchStatistics, CommitStatistics, Reach, Survey, TableStatistics
from rli.errors import SettingsError
from tests.support.advice import RATES, REDIS_URL


def found(
    keys: int,
    batch: int,
    *,
    files: int = 100,
    known: float = 0.5,
    hit: float = 1.0,
    near: float = 1.0,
    files_per_key: float | None = None,
    moved: float = 0.0,
) -> Survey:
    """A table of keys of 36 bytes; ``hit`` and ``near`` are shares of its files."""
    per_key = files if files_per_key is None else files_per_key
    table = TableStatistics(
        location="t",
        is_table=True,
        partition_by=("day",),
        index=None,
        keys=keys,
        key_bytes=36,
        encoded_key_bytes=16,
        partitions=files,
        files=files,
        bytes=100 * keys,
        files_per_key=per_key,
        files_per_key_in_partition=1,
        repeated=0,
        open_seconds=0.0001,
        is_local=True,
        commits=None,
        version=6,
    )
    whole = Reach(files, keys, 100 * keys)
    return Survey(
        table,
        BatchStatistics(
            origin="records",
            keys=batch,
            known=known,
            moved=moved,
            partitions=files * near,
            hit=whole.times(hit),
            near=whole.times(near),
            tested=whole.times(min(1.0, hit * per_key)),
            tested_near=whole.times(near),
            tests=batch * per_key,
            tests_near=batch,
        ),
    )


def cost(advice: Advice, url: str) -> float:
    (seconds,) = [kind.upsert_seconds for kind in advice.kinds if kind.url == url]
    assert seconds is not None
    return seconds


def url_of_record(advice: Advice) -> str:
    return next(kind.url for kind in advice.kinds if kind.url.startswith("lmdb:"))


def test_log_files_for_scattered_changes() -> None:
    scattered = advised(found(50_000_000, 10_000), RATES, Needs())
    assert scattered.table_type is TableType.MERGE_ON_READ
    assert "10,000 stored records for each" in scattered.reason_of_type
    # Half of each file changes, or the files are small.
    for keys, batch in ((50_000_000, 50_000_000), (100_000, 100)):
        assert advised(found(keys, batch), RATES, Needs()).table_type is TableType.COPY_ON_WRITE
    survey = found(50_000_000, 10_000)
    today = replace(survey, table=replace(survey.table, table_type=TableType.COPY_ON_WRITE))
    assert "--set merge-on-read" in advised(today, RATES, Needs()).reason_of_type


def test_small_batch_needs_record_index() -> None:
    advice = advised(found(50_000_000, 1_000, hit=0.02, near=0.02), RATES, Needs())
    assert advice.choice.startswith("lmdb:")
    assert cost(advice, "global-simple:") > 2 * cost(advice, advice.choice)


def test_a_small_table_needs_no_store() -> None:
    advice = advised(found(20_000, 5_000, files=2), RATES, Needs())
    assert advice.choice.startswith("global-")


def test_record_index_needs_no_store() -> None:
    survey = found(50_000_000, 1_000, hit=0.02, near=0.02, files=1_000)
    kinds = {kind.url: kind for kind in advised(survey, RATES, Needs(several_machines=True)).kinds}
    lmdb = kinds["lmdb:///path/to/index"]
    ours, simple = kinds["record-index:"], kinds["global-simple:"]
    assert not ours.obstacles
    assert lmdb.obstacles
    # A look-up reads a block for each key, and not the table; but compactions rewrite the index again and again.
    assert (ours.tag_seconds or 0) < (simple.tag_seconds or 0) / 10
    assert cost(advised(survey, RATES, Needs()), ours.url) > 3 * cost(advised(survey, RATES, Needs()), lmdb.url)
    assert (ours.lookup_seconds or 0) > 3 * (lmdb.lookup_seconds or 0)


def test_partitioned_index_needs_newer_tables() -> None:
    survey = found(1_000_000, 1_000)
    for version in (6, 9):
        table = replace(survey.table, version=version)
        advice = advised(replace(survey, table=table), RATES, Needs(scope=Scope.PARTITION))
        (kind,) = (kind for kind in advice.kinds if kind.url == "record-index:?scope=partition")
        assert kind.obstacles == (() if version == 9 else ("needs a table of version 9",))


def test_metadata_table_makes_bloom_cheap() -> None:
    survey = found(5_000_000, 1_000, known=0, hit=0, files=5_000, files_per_key=1)
    kept = replace(survey, table=replace(survey.table, metadata_partitions=("bloom_filters", "column_stats", "files")))
    of_footers, of_metadata = (cost(advised(one, RATES, Needs()), "global-bloom:") for one in (survey, kept))
    assert of_metadata < of_footers - 3


def test_advice_looks_ahead() -> None:
    advice = advised(found(60_000, 1_000, hit=0.2, near=0.2, files=5), RATES, Needs())
    assert advice.choice.startswith("global-")
    assert any("10 times as many keys, lmdb:" in reason for reason in advice.reasons)


def test_partition_scope_makes_few_partitions_cheap() -> None:
    survey = found(50_000_000, 200_000, hit=0.01, near=0.01)
    advice = advised(survey, RATES, Needs(scope=Scope.PARTITION))
    assert advice.choice.rstrip(":") in {"simple", "bloom"}
    assert cost(advice, "simple:") < cost(advice, "global-simple:") / 5


def test_bloom_filters_suit_rising_keys() -> None:
    survey = found(50_000_000, 100_000, known=0.1, hit=0.01, near=0.01, files_per_key=1)
    advice = advised(survey, RATES, Needs())
    assert cost(advice, "global-bloom:") < cost(advice, "global-simple:") / 2


def test_store_may_have_partition_scope() -> None:
    advice = advised(found(50_000_000, 1_000, hit=0.02), RATES, Needs(scope=Scope.PARTITION, stores=(REDIS_URL,)))
    eligible = {kind.url for kind in advice.kinds if not kind.obstacles}
    assert {f"{REDIS_URL}&scope=partition", "lmdb:///path/to/index?scope=partition", "bloom:"} <= eligible
    assert all(kind.scope is Scope.PARTITION for kind in advice.kinds if not kind.obstacles)


def test_the_scope_of_an_index_stays() -> None:
    survey = found(1_000_000, 1_000)
    for index, scope in {
        "lmdb:///i?scope=partition": Scope.PARTITION,
        "bucket:?buckets=4": Scope.PARTITION,
        "bloom:": Scope.PARTITION,
        "global-bloom:": Scope.GLOBAL,
        "record-index:": Scope.GLOBAL,
        "record-index:?scope=partition": Scope.PARTITION,
        REDIS_URL: Scope.GLOBAL,
    }.items():
        assert advised(replace(survey, table=replace(survey.table, index=index)), RATES, Needs()).scope is scope


@pytest.mark.parametrize("bucket", ["bucket:?buckets=1", "consistent-bucket:?buckets=1"])
def test_buckets_are_for_new_tables(bucket: str) -> None:
    survey = found(1_000_000, 1_000)
    (of_table,) = (kind for kind in advised(survey, RATES, Needs(scope=Scope.PARTITION)).kinds if kind.url == bucket)
    assert of_table.obstacles
    files = replace(survey, table=replace(survey.table, is_table=False))
    (of_files,) = (kind for kind in advised(files, RATES, Needs(scope=Scope.PARTITION)).kinds if kind.url == bucket)
    assert not of_files.obstacles


@pytest.mark.parametrize(
    "index",
    [
        "lmdb:///i?ttl=720h",
        "lmdb:///i?scope=partition&partitions=2026.*",
        "bucket:?buckets=8&fields=a",
        "consistent-bucket:?buckets=8",
    ],
)
def test_current_index_keeps_its_options(index: str) -> None:
    survey = found(1_000_000, 1_000)
    advice = advised(replace(survey, table=replace(survey.table, index=index)), RATES, Needs())
    (own,) = (kind for kind in advice.kinds if kind.url == index)
    assert not own.obstacles
    scheme = index.partition(":")[0]
    assert [kind.url for kind in advice.kinds if kind.url.startswith(f"{scheme}:") and not kind.obstacles] == [index]


def test_advised_index_keeps_time_to_live() -> None:
    survey = found(20_000, 5_000, files=2)
    advice = advised(replace(survey, table=replace(survey.table, index="memory:?ttl=30d")), RATES, Needs())
    assert all(kind.url.endswith("?ttl=30d") for kind in advice.kinds if not kind.obstacles)


@pytest.mark.parametrize(
    ("index", "command"),
    [("lmdb:///i", "rli index migrate TABLE --to 'global-"), (None, "rli index bootstrap TABLE --index 'global-")],
)
def test_advice_names_its_command(index: str | None, command: str) -> None:
    survey = found(20_000_000, 10_000_000, files=2)
    advice = advised(replace(survey, table=replace(survey.table, index=index)), RATES, Needs())
    assert command in advice.reasons[-1]


def test_store_cost_follows_batch_size() -> None:
    small, large = (advised(found(keys, 1_000, hit=0.02), RATES, Needs()) for keys in (10**6, 10**7))
    tag = [next(kind.tag_seconds for kind in each.kinds if kind.url.startswith("lmdb:")) for each in (small, large)]
    assert tag[0] == tag[1]
    assert cost(large, "global-simple:") > cost(small, "global-simple:")


def test_moves_need_a_global_index() -> None:
    advice = advised(found(50_000_000, 100_000, near=0.01, hit=0.01, moved=0.01), RATES, Needs())
    assert advice.scope is Scope.GLOBAL
    assert all(kind.obstacles for kind in advice.kinds if kind.scope is Scope.PARTITION)
    assert any("move" in reason for reason in advice.reasons)


def test_repeated_keys_need_partition_scope() -> None:
    survey = found(1_000_000, 10_000)
    repeated = replace(survey, table=replace(survey.table, repeated=0.1))
    assert advised(repeated, RATES, Needs()).scope is Scope.PARTITION
    with pytest.raises(SettingsError, match=r"10\.00%"):
        advised(repeated, RATES, Needs(scope=Scope.GLOBAL))


def test_several_machines_need_shared_store() -> None:
    survey = found(50_000_000, 1_000, hit=0.02, near=0.02)
    said = advised(survey, RATES, Needs(several_machines=True, stores=(REDIS_URL,)))
    assert said.choice == REDIS_URL
    commits = CommitStatistics(3, 1_000, 0.5, 0.5, 0, 0, 0, 10, 10, ("a@one", "a@two"))
    shown = advised(replace(survey, table=replace(survey.table, commits=commits)), RATES, Needs(stores=(REDIS_URL,)))
    assert shown.choice == REDIS_URL
    # Without a store, an index that needs none.
    assert advised(survey, RATES, Needs(several_machines=True)).choice.startswith("global-")


def test_current_index_stays_if_competitive() -> None:
    survey = found(200_000, 20_000, files=10)
    url = "lmdb:///data/index"
    advice = advised(replace(survey, table=replace(survey.table, index=url)), RATES, Needs())
    assert cost(advice, url) < 1.25 * min(kind.upsert_seconds or 9 for kind in advice.kinds if not kind.obstacles)
    assert advice.choice == url
    assert any("index of today" in reason for reason in advice.reasons)


def test_without_partitions_both_scopes_are_one() -> None:
    survey = found(20_000, 5_000, files=2)
    advice = advised(replace(survey, table=replace(survey.table, partition_by=())), RATES, Needs())
    assert not next(kind for kind in advice.kinds if kind.url == "simple:").obstacles


def test_kinds_are_ordered_by_cost() -> None:
    advice = advised(found(1_000_000, 10_000), RATES, Needs(stores=(REDIS_URL,)))
    eligible = [kind.upsert_seconds or 0 for kind in advice.kinds if not kind.obstacles]
    assert eligible == sorted(eligible)
    assert len(advice.reasons) <= 10
    assert {kind.url for kind in advice.kinds} >= {"simple:", "global-simple:", REDIS_URL, "memory:"}


def test_a_table_without_records_gets_advice() -> None:
    survey = found(0, 1_000, files=0, known=0, hit=0, near=0)
    assert advised(survey, RATES, Needs()).choice
