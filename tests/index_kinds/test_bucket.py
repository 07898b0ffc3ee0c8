"""The bucket index: each bucket of a partition is one file group, whatever writers, services and settings do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rli
from rli import (
    ConflictError,
    CorruptTableError,
    IndexMismatchError,
    RecordExistsError,
    SettingsError,
    Step,
    Table,
    UnsupportedTableError,
    open_table,
)
from rli.hudi.bucket_index import bucket_hashes, bucket_of_file_id
from rli.hudi.hashing_config import FOLDER
from rli.table.table import opened_table
from tests.support.tables import SCHEMA, check_stored, records

ONE_BUCKET = [
    f"k{number}" for number in range(100) if bucket_hashes(pa.array([f"k{number}"]), ["id"], ["id"])[0] % 4 == 1
]
"""Keys of bucket 1 of 4."""


def create(folder: Path, index: str = "bucket:?buckets=4", **settings: Any) -> Table:
    """A table with a schema, so that no first commit brings it: writers would be told apart by that."""
    path, schema = folder / "t", SCHEMA
    return rli.create_table(
        path, record_key="id", partition_by="city", ordering="ts", index=index, schema=schema, **settings
    )


def buckets_of(table: Table) -> dict[tuple[str, int], int]:
    """How many file groups each bucket has, of each partition."""
    slices = opened_table(table).snapshot().slices
    return dict(Counter((group.partition_path, bucket_of_file_id(group.file_id) or 0) for group in slices))


def versions(*keys: str, ts: int = 1, city: str = "x") -> pa.Table:
    return records(*((key, city, ts, float(ts)) for key in keys))


def once(step: Step, action: Callable[[], object]) -> Callable[[Step], None]:
    left = [action]

    def on_step(reported: Step) -> None:
        if reported is step and left:
            left.pop()()

    return on_step


@pytest.mark.invariant("P36")
@pytest.mark.parametrize("step", [Step.INFLIGHT, Step.TAGGED, Step.RESOLVED, Step.WRITTEN])
def test_bucket_never_gets_two_file_groups(tmp_path: Path, step: Step) -> None:
    """Their keys differ, and so do the names that they give to the bucket's first file group."""
    table = create(tmp_path)
    first, second = ONE_BUCKET[:2]
    rival = once(step, lambda: open_table(table.location).upsert(versions(first)))
    result = table.upsert(versions(second), on_step=rival)
    assert (result.inserted, result.attempts) == (1, 2)
    assert buckets_of(table) == {("x", 1): 1}
    assert sorted(table.read()["id"].to_pylist()) == sorted([first, second])
    check_stored(table)


def test_abandoned_write_names_contested_keys(tmp_path: Path) -> None:
    table = create(tmp_path)
    first, second = ONE_BUCKET[:2]
    rival = once(Step.WRITTEN, lambda: open_table(table.location).upsert(versions(first)))
    with pytest.raises(ConflictError) as raised:
        table.upsert(versions(second), attempts=1, on_step=rival)
    assert raised.value.keys == (second,)
    assert buckets_of(table) == {("x", 1): 1}


@pytest.mark.invariant("P36")
def test_differing_bucket_count_is_detected(tmp_path: Path) -> None:
    """Neither finds a file group of its bucket: one of them has its keys in other buckets."""
    table = create(tmp_path)
    with open_table(table.location, index="bucket:?buckets=7") as other:
        rival = once(Step.WRITTEN, lambda: other.upsert(versions(*(f"k{number}" for number in range(40)))))
        with pytest.raises(IndexMismatchError, match=r"buckets=4.*the files suggest bucket:\?buckets=7"):
            table.upsert(versions("k0"), on_step=rival)
    assert table.read().num_rows == 40


@pytest.mark.parametrize(
    ("buckets", "problem"), [(8, "holds keys of other buckets"), (2, "is no bucket"), (3, "is no bucket")]
)
def test_wrong_bucket_count_is_refused(tmp_path: Path, buckets: int, problem: str) -> None:
    table = create(tmp_path)
    table.upsert(versions(*(f"k{number}" for number in range(40))))
    url, message = f"bucket:?buckets={buckets}", rf"{problem}.*the files suggest bucket:\?buckets=4"
    with pytest.raises(IndexMismatchError, match=message):
        table.bootstrap_index(url)
    assert open_table(table.location).index.url == "bucket:?buckets=4"
    uses: list[Callable[[Table], object]] = [
        lambda other: other.upsert(versions("new")),
        lambda other: other.get(["k0"]),
        lambda other: other.lookup(["k0"]),
        lambda other: other.delete(["k0"]),
    ]
    for use in uses:
        with open_table(table.location, index=url) as other, pytest.raises(IndexMismatchError, match=message):
            use(other)
    assert table.read().num_rows == 40


def test_few_keys_suggest_several_numbers(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions("a", "b", "c"))
    with pytest.raises(IndexMismatchError, match=r"suggest bucket:\?buckets=4, or one of 8, 16, 32, 64"):
        table.bootstrap_index("bucket:?buckets=9")


@pytest.mark.parametrize("index", ["simple:", "bucket:?buckets=4&fields=b"])
def test_table_without_buckets_is_refused(tmp_path: Path, index: str) -> None:
    table = rli.create_table(tmp_path / "t", record_key=["a", "b"], index=index)
    table.upsert(pa.table({"a": [str(n) for n in range(50)], "b": [str(n % 7) for n in range(50)]}))
    with pytest.raises(IndexMismatchError, match="the files hold no buckets of these columns"):
        table.bootstrap_index("bucket:?buckets=4")
    assert open_table(table.location).index.url == index
    assert table.bootstrap_index("simple:") == 50
    assert table.upsert(pa.table({"a": ["1"], "b": ["1"]})).inserted == 0


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("bucket:", "not the URL of a bucket index"),
        ("bucket://here?buckets=4", "not the URL of a bucket index"),
        ("bucket:?buckets=4&buckets=5", "not the URL of a bucket index"),
        ("bucket:?buckets=0", "from 1 to 65536: buckets=0"),
        ("bucket:?buckets=-1", "buckets=-1"),
        ("bucket:?buckets=٤", "buckets=٤"),
        ("bucket:?fields=id", "buckets=none"),
        ("bucket:?buckets=4&bucket=1", "no such setting: setting=bucket"),
        ("bucket:?buckets=4&fields=", "empty or repeated: fields="),
        ("bucket:?buckets=4&fields=id,id", "empty or repeated: fields=id,id"),
        ("bucket:?buckets=4&fields=city", "hashes columns of the record key: fields=city record key=id"),
    ],
)
def test_invalid_bucket_urls_are_refused(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        create(tmp_path, url)
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


def test_only_the_named_columns_are_hashed(tmp_path: Path) -> None:
    url = "bucket:?buckets=16&fields=b"
    with rli.create_table(tmp_path / "t", record_key=["a", "b"], index=url) as table:
        table.upsert(pa.table({"a": [str(n) for n in range(50)], "b": [None, "é😀"] * 25}))
        assert len(buckets_of(table)) == 2
    with open_table(tmp_path / "t") as again:
        assert again.upsert(pa.table({"a": ["0", "1"], "b": [None, "é😀"], "v": [1, 1]})).updated == 2
        assert again.get(["a:0,b:__null__"])["v"].to_pylist() == [1]
        assert again.verify_index().agrees


def test_insert_finds_keys_in_buckets(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions("a", "b", ts=1))
    result = table.insert(versions("a", "b", "c", ts=9))
    assert (result.inserted, result.updated, result.unchanged) == (1, 0, 2)
    assert set(table.read()["ts"].to_pylist()) == {1, 9}
    before = table.timeline()
    with pytest.raises(RecordExistsError, match=r"count=1 keys=\['c'\]"):
        table.insert(versions("c", "d"), on_existing="fail")
    assert table.timeline() == before
    assert table.insert(versions("d", "e"), on_existing="fail").inserted == 2
    assert table.insert(versions("a", "e", ts=9)).instant is None
    check_stored(table)


def test_records_that_change_nothing_rewrite_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions("a", "b", ts=5))
    assert table.upsert(versions("a", "b", ts=5)).instant is None
    late = table.upsert(versions("a", "b", ts=4))
    assert (late.instant, late.unchanged) == (None, 2)


@pytest.mark.invariant("P36")
def test_late_record_survives_concurrent_rollback(tmp_path: Path) -> None:
    """The write changes nothing in the bucket, and depends on it all the same."""
    table = create(tmp_path)
    table.upsert(versions("a", ts=1))
    newer = table.upsert(versions("a", ts=9)).instant
    assert newer is not None
    with open_table(table.location) as other:
        late, fresh = ("a", "x", 5, 5.0), ("b", "y", 1, 1.0)
        table.upsert(records(late, fresh), on_step=once(Step.WRITTEN, lambda: other.rollback(newer)))
    assert table.get(["a"])["ts"].to_pylist() == [5]


def test_missing_columns_keep_values_or_null(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions("a"))
    short = versions("a", "b", ts=2).drop_columns(["v"])
    result = table.upsert(short, missing="keep")
    assert (result.inserted, result.updated) == (1, 1)
    assert {row["id"]: row["v"] for row in table.read().to_pylist()} == {"a": 1.0, "b": None}


def test_lookup_opens_only_key_bucket(tmp_path: Path) -> None:
    table = create(tmp_path)
    keys = [f"k{number}" for number in range(40)]
    table.upsert(versions(*keys))
    with open_table(table.location) as reader:
        assert reader.lookup([ONE_BUCKET[0]])["partition_path"].to_pylist() == ["x"]
        for path in Path(table.location, "x").glob("0000000[023]*.parquet"):
            path.write_bytes(b"PAR1 damaged PAR1")
        assert reader.get(ONE_BUCKET[:1])["id"].to_pylist() == ONE_BUCKET[:1]
        assert reader.lookup([ONE_BUCKET[0]])["partition_path"].to_pylist() == ["x"]
        with pytest.raises(CorruptTableError, match="cannot be read as Parquet"):
            reader.get(keys)


def test_buckets_are_never_clustered(tmp_path: Path) -> None:
    maintenance = rli.Maintenance(clustering_inline_max_commits=1)
    table = create(tmp_path, maintenance=maintenance)
    for version in range(1, 4):
        table.upsert(versions(*(f"k{number}" for number in range(20)), ts=version))
    with pytest.raises(SettingsError, match="computes the file group of each record"):
        table.cluster(smaller_than=1 << 30)
    assert buckets_of(table) == {("x", bucket): 1 for bucket in range(4)}


def test_emptied_bucket_gets_file_group(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(versions(ONE_BUCKET[0], city="y"))
    created = table.upsert(versions(ONE_BUCKET[0])).instant
    assert created is not None
    table.rollback(created)
    assert table.upsert(versions(ONE_BUCKET[1])).inserted == 1
    table.delete([ONE_BUCKET[1]])
    assert table.upsert(versions(ONE_BUCKET[0], ONE_BUCKET[1])).inserted == 2
    assert buckets_of(table) == {("x", 1): 1, ("y", 1): 1}
    check_stored(table)


def test_bucket_with_two_groups_is_refused(tmp_path: Path) -> None:
    """As another engine leaves them that has written beside rli without its lease."""
    table = create(tmp_path)
    table.upsert(versions(*ONE_BUCKET[:3]))
    with open_table(table.location, index="simple:") as other:
        (stored,) = Path(table.location, "x").glob("00000001*.parquet")
        copy = stored.with_name("00000001-0000-0000-0000-000000000000-0_" + stored.name.partition("_")[2])
        copy.write_bytes(stored.read_bytes())
        assert other.read().num_rows == 6
    for use in (
        lambda: table.upsert(versions(ONE_BUCKET[0], ts=2)),
        lambda: table.get([ONE_BUCKET[0]]),
        table.verify_index,
    ):
        with pytest.raises(IndexMismatchError, match="two file groups are one bucket"):
            use()


def test_verify_finds_keys_of_another_bucket(tmp_path: Path) -> None:
    """Another kind of index fills small file groups, whatever their names say."""
    table = create(tmp_path)
    table.upsert(versions(*ONE_BUCKET))
    strangers = [f"new{number}" for number in range(20)]
    with open_table(table.location, index="simple:") as other:
        other.upsert(versions(*strangers))
    with open_table(table.location) as again:
        report = again.verify_index()
        assert not report.agrees
        assert report.misplaced == sum(bucket_hashes(pa.array(strangers), ["id"], ["id"]) % 4 != 1)
        assert set(report.sample) < set(strangers)
        with pytest.raises(CorruptTableError, match=f"another bucket than their own.*records={report.misplaced}"):
            again.repair_index()


def test_bucket_counts_follow_hashing_config(tmp_path: Path) -> None:
    table = create(tmp_path)
    _write_config(table, expressions=r"^b.*,2;\d{4},3", instant="00000000000000000")
    _write_config(table, expressions="a,9", instant="20990101000000000", suffix=".hashing_config.tmp")
    keys = [f"k{number}" for number in range(60)]
    for city in ("a", "big", "2024"):
        table.upsert(versions(*keys, city=city))
    counts = Counter(partition for partition, _ in buckets_of(table))
    assert counts == {"a": 4, "big": 2, "2024": 3}
    with open_table(table.location) as again:
        assert again.upsert(versions(*keys, city="big", ts=2)).updated == 60
        assert len(again.lookup(["k7"])) == 3
        assert again.verify_index().agrees


def test_uncommitted_hashing_config_is_ignored(tmp_path: Path) -> None:
    table = create(tmp_path)
    keys = [f"k{number}" for number in range(60)]
    for ts in (1, 2):
        table.upsert(versions(*keys, ts=ts))

    def begin_replacement() -> None:
        _write_config(table, expressions="x,8", instant="20990101000000000")

    assert table.upsert(versions(*keys, ts=3), on_step=once(Step.INFLIGHT, begin_replacement)).updated == 60
    assert table.get(keys).num_rows == 60


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"expressions": "a", "instant": "0"}, CorruptTableError, "a rule without a number"),
        ({"expressions": "a,b,2", "instant": "0"}, CorruptTableError, "a rule without a number"),
        ({"expressions": r"\p{Alpha}+,2", "instant": "0"}, UnsupportedTableError, "a pattern of Java"),
        ({"expressions": "(a)\\1,2", "instant": "0"}, UnsupportedTableError, "a pattern of Java"),
        ({"expressions": "a(?=b),2", "instant": "0"}, UnsupportedTableError, "a pattern of Java"),
        ({"expressions": "a,99999999", "instant": "0"}, UnsupportedTableError, "more buckets than rli writes"),
        ({"expressions": f"a,{10**21}", "instant": "0"}, UnsupportedTableError, "more buckets than rli writes"),
        ({"expressions": f"a,{'9' * 9999}", "instant": "0"}, UnsupportedTableError, "more buckets than rli writes"),
        ({"expressions": "a,2", "default": 10**21, "instant": "0"}, UnsupportedTableError, "more buckets than rli"),
        ({"expressions": "[a[bc]],2", "instant": "0"}, UnsupportedTableError, "a pattern of Java"),
        ({"expressions": "(,2", "instant": "0"}, UnsupportedTableError, "a pattern of Java"),
        ({"expressions": "a,2", "instant": "0", "rule": "other"}, UnsupportedTableError, "rule=other"),
        ({"expressions": "a,2", "instant": "0", "default": 5}, IndexMismatchError, r"write bucket:\?buckets=5"),
        ({"expressions": 7, "instant": "0"}, CorruptTableError, "is damaged"),
    ],
)
def test_hashing_configs_that_rli_cannot_follow(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    table = create(tmp_path)
    _write_config(table, **fields)
    with pytest.raises(error, match=message):
        table.upsert(versions("a"))


@pytest.mark.timeout(60)
def test_a_pattern_that_backtracks_ends(tmp_path: Path) -> None:
    table = create(tmp_path)
    _write_config(table, expressions="(a+)+b,2", instant="0")
    city = "a" * 40 + "!"
    table.upsert(versions("k1", "k2", city=city))
    assert {partition for partition, _ in buckets_of(table)} == {city}
    assert table.get(["k1"]).num_rows == 1


def _write_config(
    table: Table,
    *,
    expressions: object,
    instant: str,
    rule: str = "regex",
    default: int = 4,
    suffix: str = ".hashing_config",
) -> None:
    """As Hudi 1.2.0 writes them."""
    folder = Path(table.location, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "expressions": expressions,
        "defaultBucketNumber": default,
        "rule": rule,
        "version": 1,
        "instant": instant,
    }
    (folder / f"{instant}{suffix}").write_text(json.dumps(content))
