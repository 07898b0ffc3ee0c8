"""Tables that Apache Hudi wrote: those with Parquet files are read, copy-on-write ones indexed; the others are refused."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import rli
from rli.hudi.key_generator import KeyGenerator
from rli.hudi.meta_columns import PARTITION_PATH, RECORD_KEY
from rli.hudi.properties import load_properties
from rli.hudi.table_features import require_writable
from rli.index.table_files.locator import KeyColumnLocator
from rli.storage import Storage
from rli.table.table import opened_table
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.hudi_tables import TABLES, unzip_hudi_table
from tests.support.rows import sorted_rows

with (TABLES / "MANIFEST.csv").open(encoding="utf-8") as manifest:
    FACTS: Final[dict[str, dict[str, str]]] = {row["zip"].removesuffix(".zip"): row for row in csv.DictReader(manifest)}


def _is_readable(facts: Mapping[str, str]) -> bool:
    return facts["type"] == "COW" and "lance" not in facts["zip"]


READABLE: Final = [name for name, facts in FACTS.items() if _is_readable(facts)]
LANCE: Final = [name for name in FACTS if "lance" in name]
MERGE_ON_READ: Final = [name for name, facts in FACTS.items() if facts["type"] == "MOR" and name not in LANCE]
EMPTY: Final = [name for name in READABLE if FACTS[name]["completed_instants"] == "0"]
# The partition is part of these tables' keys: Hudi's default index finds a key in its own partition only.
KEYS_REPEATED: Final = [name for name in READABLE if "v9_timebasedkeygen" in name]
INDEXABLE: Final = [name for name in READABLE if name not in KEYS_REPEATED]
# One of these tables has a key in two file groups of its one partition.
WITH_LOGS: Final = [
    name for name in MERGE_ON_READ if not name.endswith(("timebasedkeygen_nonhivestyle", "v9_nonpartitioned_rollback"))
]


def test_every_table_is_judged() -> None:
    assert len(READABLE) == 19
    assert {FACTS[name]["table_version"] for name in READABLE} == {"6", "8", "9"}
    assert len(READABLE) + len(LANCE) + len(MERGE_ON_READ) == len(FACTS)
    assert len(KEYS_REPEATED) == 3


@pytest.mark.parametrize("name", [name for name in READABLE if name not in EMPTY])
def test_rows_equal_hudi_rs(name: str, tmp_path: Path) -> None:
    path = unzip_hudi_table(name, tmp_path)
    ours = rli.open_table(path).read()
    theirs = read_with_hudi_rs(path)
    assert ours.schema.names == theirs.schema.names
    assert sorted_rows(ours) == sorted_rows(theirs)
    assert ours.num_rows


@pytest.mark.parametrize("name", [name for name in (*INDEXABLE, *WITH_LOGS) if FACTS[name]["meta_fields"] == "true"])
def test_replayed_changes_give_the_rows(name: str, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    expected = table.read(columns=[RECORD_KEY, *table.schema.names]).to_pylist() if table.schema else []
    found: dict[str, Any] = {}
    for row in (
        table.changes(columns=[RECORD_KEY, *table.schema.names] if table.schema else None).read_all().to_pylist()
    ):
        kind, key = row.pop("_change_type"), row[RECORD_KEY]
        del row["_commit_instant"], row["_completion_time"]
        assert (key in found) == (kind != "insert")
        found[key] = row
        if kind == "delete":
            del found[key]
    assert sorted(found.values(), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_table_has_no_rows(name: str, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    assert table.read().num_rows == 0
    assert table.bootstrap_index(f"lmdb://{tmp_path / 'index'}") == 0
    assert table.verify_index().agrees


@pytest.mark.parametrize("name", READABLE)
def test_past_rows_equal_hudi_rs(name: str, tmp_path: Path) -> None:
    path = unzip_hudi_table(name, tmp_path)
    table = rli.open_table(path)
    instants = [instant.time for instant in table.timeline() if instant.is_completed and instant.is_write]
    assert len(instants) == int(FACTS[name]["completed_instants"])
    for instant in instants:
        theirs = read_with_hudi_rs(path, instant)
        # hudi-rs gives old rows with the types of the newest schema, ours have the types of their time.
        assert sorted_rows(table.read(as_of=instant).cast(theirs.schema)) == sorted_rows(theirs)


@pytest.mark.parametrize("name", INDEXABLE)
def test_the_index_places_every_record(name: str, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    has_meta_fields = FACTS[name]["meta_fields"] == "true"
    expected = _keys_in_meta_columns(table) if has_meta_fields else _keys_from_fields(name, table)
    assert table.bootstrap_index(f"lmdb://{tmp_path / 'index'}") == len(expected)
    assert table.verify_index().agrees
    found = table.lookup(list(expected))
    assert found.column("file_id").null_count == 0
    assert dict(zip(found["record_key"].to_pylist(), found["partition_path"].to_pylist(), strict=True)) == expected
    table.close()


def _keys_in_meta_columns(table: rli.Table) -> dict[str, str]:
    if table.schema is None or not table.timeline():
        return {}
    rows = table.read(columns=[RECORD_KEY, PARTITION_PATH]).to_pylist()
    assert len({row[RECORD_KEY] for row in rows}) == len(rows)
    return {row[RECORD_KEY]: row[PARTITION_PATH] for row in rows}


def _keys_from_fields(name: str, table: rli.Table) -> dict[str, str]:
    facts = FACTS[name]
    hive_style = facts["hive_style"] == "true"
    rows = table.read()
    generator = KeyGenerator((facts["record_key"],), (facts["partition_fields"],), hive_style, url_encode=False)
    return dict(
        zip(
            rows[facts["record_key"]].cast(pa.string()).to_pylist(),
            generator.partition_paths(rows).to_pylist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("name", KEYS_REPEATED)
def test_bootstrap_names_key_in_two_partitions(name: str, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    count = Counter(table.read(columns=[RECORD_KEY])[RECORD_KEY].to_pylist())
    (repeated,) = (key for key, times in count.items() if times > 1)
    with pytest.raises(rli.CorruptTableError, match=rf"stored more than once.*sample: '{repeated}' in "):
        table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    with pytest.raises(rli.IndexNotReadyError, match="not been bootstrapped"):
        table.lookup([repeated])
    table.close()


@pytest.mark.parametrize("name", MERGE_ON_READ)
def test_merged_rows_equal_hudi_rs(name: str, tmp_path: Path) -> None:
    path = unzip_hudi_table(name, tmp_path)
    table = rli.open_table(path)
    assert sorted_rows(table.read()) == sorted_rows(read_with_hudi_rs(path))
    for entry in table.history():
        assert sorted_rows(table.read(as_of=entry.time)) == sorted_rows(read_with_hudi_rs(path, entry.time))


# Hudi has written a key twice into that table.
@pytest.mark.parametrize("name", [name for name in MERGE_ON_READ if "v9_nonpartitioned_rollback" not in name])
def test_tables_with_logs_take_writes(name: str, tmp_path: Path) -> None:
    path = unzip_hudi_table(name, tmp_path)
    if not _is_writable(path):
        return
    table = rli.open_table(path)
    before, differences = table.read(), set(table.metadata.verify())
    keys = table.read(columns=[RECORD_KEY])[RECORD_KEY].to_pylist()
    table.bootstrap_index("simple:")
    if not keys:
        return
    removed = table.delete([min(keys)])
    assert removed.deleted == keys.count(min(keys))
    assert removed.files_appended > 0
    rows = table.read()
    assert table.upsert(rows).unchanged == rows.num_rows == before.num_rows - removed.deleted
    assert sorted_rows(rows) == sorted_rows(read_with_hudi_rs(path))
    assert set(table.metadata.verify()) <= differences
    table.rollback("last")
    assert sorted_rows(table.read()) == sorted_rows(before) == sorted_rows(read_with_hudi_rs(path))


def _is_writable(path: Path) -> bool:
    try:
        require_writable(load_properties(Storage(str(path))))
    except rli.UnsupportedTableError:
        return False
    return True


@pytest.mark.parametrize("name", LANCE)
def test_other_base_file_formats_are_refused(name: str, tmp_path: Path) -> None:
    path = unzip_hudi_table(name, tmp_path)
    with pytest.raises(rli.UnsupportedTableError, match=r"only Parquet base files are read.*format=LANCE"):
        rli.open_table(path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("sample_table/cow/v6_timebasedkeygen_nonhivestyle", "key generator"),
        ("sample_table/cow/v6_simplekeygen_hivestyle_no_metafields", "keeps no record keys"),
    ],
)
def test_read_only_table_names_its_reason(name: str, reason: str, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    before = table.read()
    table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    with pytest.raises(rli.UnsupportedTableError, match=reason):
        table.upsert(before)
    assert table.read().equals(before)
    assert not [instant for instant in table.timeline() if not instant.is_completed]
    table.close()


@pytest.mark.parametrize(
    "name",
    [
        "v6_nonpartitioned",
        "v6_simplekeygen_nonhivestyle",
        "v8_simplekeygen_nonhivestyle",
        "v9_txns_simple_meta",
        "v9_txns_complex_nometa",
        "v9_txns_nonpart_meta",
    ],
)
def test_tables_of_every_version_are_written(name: str, tmp_path: Path) -> None:
    path = unzip_hudi_table(f"sample_table/cow/{name}", tmp_path)
    kept = _properties_that_stay(path)
    table = rli.open_table(path)
    before = table.read()
    table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    keys = table.read(columns=[RECORD_KEY])[RECORD_KEY].to_pylist()
    table.upsert(before.slice(0, 1))
    assert table.delete([keys[1]]).deleted == 1
    expected = sorted_rows(pa.concat_tables([before.slice(0, 1), before.slice(2)]))
    assert sorted_rows(table.read()) == expected
    assert sorted_rows(read_with_hudi_rs(path)) == expected
    last = table.delete([keys[2]])
    assert last.instant is not None
    table.rollback(last.instant)
    assert sorted_rows(table.read()) == expected
    assert sorted_rows(read_with_hudi_rs(path)) == expected
    assert table.verify_index().agrees
    assert _properties_that_stay(path) == kept
    times = [instant.completion_time for instant in table.timeline()]
    assert None not in times or times == [None] * len(times)
    assert times == sorted(set(times), key=str) or times[0] is None
    table.close()


def _properties_that_stay(path: Path) -> dict[str, str]:
    """All but what names the partitions of the metadata table, of which rli drops some."""
    raw = load_properties(Storage(str(path))).raw
    return {key: value for key, value in raw.items() if ".metadata.partitions" not in key}


@pytest.mark.parametrize("name", [name for name in INDEXABLE if name not in EMPTY])
def test_footers_locate_every_stored_key(name: str, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    table.bootstrap_index("bloom:")
    joined = KeyColumnLocator(opened_table(table).snapshot(), rli.Scope.PARTITION)
    stored = pa.concat_tables(joined.stored(joined.candidates(None)))
    keys = stored.column("record_key").unique().to_pylist()
    found = table.lookup([*keys, *(f"{key}x" for key in keys)])
    assert sorted_rows(found.filter(found.column("file_id").is_valid())) == sorted_rows(stored)
    assert found.column("file_id").null_count == len(keys) > 0
