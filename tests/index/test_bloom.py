"""What the bloom index reads: ranges and filters leave out what they can, and never a key that a file holds."""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rli
from rli.hudi.base_file_reader import BaseFileReader
from rli.hudi.bloom_filter import BloomFilter, HashedKeys
from rli.index.bloom.key_statistics import FooterStatistics, KeyStatistics, statistics_cache
from rli.index.bloom.sought_keys import SoughtKeys
from rli.index.bloom.table_index import BloomIndex
from rli.model import Step
from rli.table.table import opened_table
from rli.view.slice_reader import SliceReader
from tests.support.metadata_tables import METADATA_TABLES, unpack_metadata_table
from tests.support.tables import live_files, records, rewrite_in_row_groups, rows_of

KEYS = st.text(st.sampled_from("abz~\x00é퟿\ue000ﬁ\uffff\U00010000\U0001f600"), max_size=4)


@given(st.sets(KEYS, min_size=1), st.sets(KEYS), st.sampled_from(["utf-8", "utf-16-be"]))
def test_range_in_either_order_keeps_keys(held: set[str], others: set[str], order: str) -> None:
    ordered = sorted(held, key=lambda key: key.encode(order))
    sought = SoughtKeys(pa.array(sorted(held | others), pa.string()))
    found = sought.in_slice(KeyStatistics((ordered[0], ordered[-1]), None)).to_pylist()
    assert held <= set(found)
    assert len(found) == len(set(found))


def test_keys_outside_range_are_skipped() -> None:
    sought = SoughtKeys(pa.array(["d", "a", "c", "bb", "e", "b"]))
    assert sought.in_slice(KeyStatistics(("b", "d"), None)).to_pylist() == ["b", "bb", "c", "d"]
    assert sought.in_slice(KeyStatistics(("f", "z"), None)).to_pylist() == []
    assert sorted(sought.in_slice(KeyStatistics(None, None)).to_pylist()) == ["a", "b", "bb", "c", "d", "e"]


@given(st.sets(KEYS, min_size=1), st.integers(1, 40), st.integers(1, 3_000), st.integers(1, 3), st.integers(0, 300))
def test_hashed_keys_are_claimed_identically(held: set[str], hashes: int, bits: int, rows: int, foreign: int) -> None:
    bloom_filter = BloomFilter(hashes, bits, np.zeros((rows, (bits + 7) // 8), np.uint8))
    for row in range(rows):
        part = BloomFilter(hashes, bits, bloom_filter.rows[row : row + 1])
        part.add(pa.array(sorted(held)[row::rows], pa.string()))
    keys = pa.array(sorted({*held, *(f"key {number}" for number in range(foreign))}), pa.string())
    places = np.arange(len(keys))[::2]
    claimed = HashedKeys(keys).claimed_by(bloom_filter, places)
    assert claimed.tolist() == places[bloom_filter.might_contain(keys.take(pa.array(places)))].tolist()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many base files were opened, and of how many row groups columns were read."""
    counts = Counter[str]()

    def counting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return method(*arguments, **options)

        return counted

    monkeypatch.setattr(BaseFileReader, "__init__", counting("files", BaseFileReader.__init__))
    monkeypatch.setattr(BaseFileReader, "batches_of", counting("row groups", BaseFileReader.batches_of))
    monkeypatch.setattr(BaseFileReader, "batches", counting("whole files", BaseFileReader.batches))
    return counts


@pytest.fixture
def probes(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[int, ...]]]:
    """Keys, files, files read, comparisons and false positives of each look-up since the last call."""
    caplog.set_level(logging.INFO, "rli.index")
    names = ("keys", "files", "files_read", "comparisons", "false_positives")

    def told() -> list[tuple[int, ...]]:
        found = [record for record in caplog.records if getattr(record, "rli_event", "") == "index.probed"]
        caplog.clear()
        return [tuple(getattr(record, f"rli_{name}") for name in names) for record in found]

    return told


def table_of_files(folder: Path, index: str, files: int = 4, rows: int = 100) -> rli.Table:
    """A partition for each file; file n holds the keys n000 to n099."""
    table = rli.create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", index=index)
    table.upsert(records(*((f"{n}{row:03}", f"p{n}", 1, 0.0) for n in range(files) for row in range(rows))))
    return table


def test_only_candidate_row_groups_are_read(
    tmp_path: Path, opened: Counter[str], probes: Callable[[], list[tuple[int, ...]]]
) -> None:
    table = table_of_files(tmp_path, "global-bloom:")
    rewrite_in_row_groups(table, 10)
    assert {file.num_row_groups for file in live_files(table).values()} == {10}
    opened.clear()
    probes()
    found = table.lookup(["1005", "1007", "1093", "2", "nobody", "1093"])
    assert found.column("partition_path").to_pylist() == ["p1", "p1", "p1", None, None, "p1"]
    assert probes() == [(5, 4, 1, 3, 0)]
    # The footers of all files, and the row groups with 1000 to 1009 and 1090 to 1099.
    assert opened == {"files": 4, "row groups": 2}
    opened.clear()
    table.lookup(["3010", "nobody"])
    assert opened == {"files": 1, "row groups": 1}


METADATA = ("files", "column_stats", "bloom_filters")
EDGES = ("", "~", "é", "\u07ff", "\ue000", "ﬁ", "\uffff", "\U00010000", "\U0001f600", "long" * 300)


@pytest.mark.parametrize("known", [METADATA, METADATA[:2], ("files", "bloom_filters")], ids="+".join)
def test_metadata_table_spares_footers(
    tmp_path: Path,
    known: tuple[str, ...],
    opened: Counter[str],
    probes: Callable[[], list[tuple[int, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BloomIndex, "fewest_asked", 20)
    location = table_of_files(tmp_path, "global-bloom:", files=20, rows=10).location
    wanted = ["1005", "17007", "nobody", "1nobody"]
    table = rli.open_table(location)
    expected, of_footers = table.lookup(wanted), probes()[-1]
    assert expected.column("partition_path").to_pylist() == ["p1", "p17", None, None]
    assert opened["files"] == 20
    table.metadata.enable(known)
    table = rli.open_table(location)
    opened.clear()
    assert table.lookup(wanted) == expected
    assert probes()[-1] == of_footers
    # Without filters, those of the two files with a key in their range are read; without ranges, the filters tell all.
    assert opened["files"] == 2
    opened.clear()
    # A file that was asked for once need not be asked for again.
    assert table.lookup(wanted) == expected
    assert opened["files"] == 2


@pytest.mark.parametrize("index", ["bloom:", "global-bloom:"])
def test_answers_equal_those_of_footers(tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BloomIndex, "fewest_asked", 1)
    table = rli.create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=index, metadata=list(METADATA)
    )
    held = [f"{edge}{number}{edge[::-1]}" for number, edge in enumerate(EDGES)]
    rows = ((row, f"p{number % 3}", 1, 0.0) for number, key in enumerate(held) for row in (key, str(number)))
    table.upsert(records(*rows))
    table.delete(["3"])
    sought = [*held, *(str(number) for number in range(len(held))), *(f"{key}x" for key in held), *EDGES[1:]]
    by_metadata = rli.open_table(table.location).lookup(sought)
    table.metadata.disable()
    assert rli.open_table(table.location).lookup(sought) == by_metadata
    assert by_metadata.column("file_id").null_count == len(sought) - 2 * len(held) + 1


@pytest.mark.parametrize("partition", METADATA[1:])
def test_broken_metadata_hides_no_key(
    tmp_path: Path,
    partition: str,
    opened: Counter[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BloomIndex, "fewest_asked", 20)
    table = table_of_files(tmp_path, "global-bloom:", files=20, rows=10)
    table.metadata.enable(METADATA)
    for file in Path(table.location, ".hoodie/metadata", partition).glob("*.hfile"):
        file.write_bytes(b"\xff" * file.stat().st_size)
    table = rli.open_table(table.location)
    opened.clear()
    in_ranges = [f"{n}005x" for n in range(20)]
    assert table.lookup(["1005", *in_ranges]).column("partition_path").to_pylist() == ["p1", *[None] * 20]
    told = [record for record in caplog.records if getattr(record, "rli_event", "") == "metadata.unused"]
    assert [vars(record)["rli_partition"] for record in told] == [partition]
    assert opened["files"] == (1 if partition == "column_stats" else 20)


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_statistics_of_hudi_find_keys(
    tmp_path: Path, name: str, opened: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    location = unpack_metadata_table(name, tmp_path)
    files = len(live_files(rli.open_table(location)))
    stored = rli.open_table(location).read(columns=["_hoodie_record_key"]).column(0).to_pylist()
    rli.open_table(location).bootstrap_index("global-bloom:")
    wanted = [*stored, *(f"{key}x" for key in stored)]
    of_footers = rli.open_table(location).lookup(wanted)
    monkeypatch.setattr(BloomIndex, "fewest_asked", 1)
    table = rli.open_table(location)
    assert table.lookup(wanted) == of_footers
    assert of_footers.column("file_id").null_count == len(stored)
    opened.clear()
    assert rli.open_table(location).lookup([f"{key}x" for key in stored]).column("file_id").null_count == len(stored)
    assert files > 1
    assert opened["files"] == 0


def test_what_filters_claim_wrongly_is_counted(
    tmp_path: Path, probes: Callable[[], list[tuple[int, ...]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BloomIndex, "bloom_filter_rate", 0.5)
    table = table_of_files(tmp_path, "global-bloom:", files=1, rows=1_000)
    foreign = [f"0{number:03}x" for number in range(999)]
    probes()
    (_, bloom_filter), *_ = [
        (path, BloomFilter.from_footer(file.metadata.metadata, path)) for path, file in live_files(table).items()
    ]
    assert bloom_filter is not None
    claimed = int(bloom_filter.might_contain(pa.array(foreign)).sum())
    assert 0 < claimed < len(foreign)
    assert table.lookup(["0001", *foreign]).column("file_id").null_count == len(foreign)
    assert probes() == [(1_000, 1, 1, claimed + 1, claimed)]


def test_key_is_compared_within_its_partition(tmp_path: Path, probes: Callable[[], list[tuple[int, ...]]]) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="bloom:")
    table.upsert(records(*((key, city, 1, 0.0) for key in "abc" for city in "xy")))
    probes()
    assert table.upsert(records(("a", "x", 2, 0.0), ("b", "y", 2, 0.0), ("a", "z", 2, 0.0))).inserted == 1
    assert probes() == [(3, 2, 2, 2, 0)]
    assert table.delete(["a"]).deleted == 3
    assert probes() == [(1, 3, 3, 3, 0)]


def test_files_without_statistics_hold_every_key(tmp_path: Path, probes: Callable[[], list[tuple[int, ...]]]) -> None:
    table = table_of_files(tmp_path, "global-bloom:", files=2)
    for path in live_files(table):
        file = Path(table.location, path)
        content = pq.read_table(file)
        file.unlink()
        pq.write_table(content.replace_schema_metadata(None), file, store_schema=False)
    table = rli.open_table(table.location)
    found = table.lookup(["0001", "1099", "nobody"]).column("partition_path").to_pylist()
    assert found == ["p0", "p1", None]
    assert probes()[-1] == (3, 2, 2, 6, 4)


@pytest.mark.parametrize("index", ["bloom:", "global-bloom:"])
def test_conflict_check_skips_irrelevant_files(tmp_path: Path, index: str, opened: Counter[str]) -> None:
    table = table_of_files(tmp_path, index)
    rival = rli.open_table(table.location)
    opened_in_check = Counter[str]()

    def on_step(step: Step) -> None:
        if step is Step.WRITTEN:
            rival.upsert(records(("1000", "p1", 5, 1.0), ("1new", "p1", 5, 1.0)))
            opened.clear()
        elif step is Step.LEASED and not opened_in_check:
            opened.clear()
        elif step is Step.PROMOTED:
            opened_in_check.update(opened)

    table.upsert(records(("2000", "p2", 5, 2.0), ("2new", "p2", 5, 2.0)), on_step=on_step)
    # With keys that are unique in their partition, the rival's partition need not be asked.
    assert opened_in_check["files"] == (0 if index == "bloom:" else 1)
    assert opened_in_check["row groups"] == opened_in_check["whole files"] == 0
    assert {row["id"] for row in rows_of(table) if row["ts"] == 5} == {"1000", "1new", "2000", "2new"}


def test_filters_are_written_for_bloom_index(tmp_path: Path) -> None:
    def hashes(table: rli.Table) -> set[int]:
        filters = [BloomFilter.from_footer(file.metadata.metadata, path) for path, file in live_files(table).items()]
        return {found.hash_count for found in filters if found is not None}

    table = table_of_files(tmp_path, "global-simple:", files=1, rows=900)
    assert hashes(table) == {10}
    table.bootstrap_index("global-bloom:")
    table = rli.open_table(table.location)
    assert table.lookup(["0001"]).column("file_id").null_count == 0
    table.upsert(records(("0001", "p0", 2, 0.0)))
    assert hashes(table) == {30}
    assert table.lookup([f"0{row:03}" for row in range(100)]).column("file_id").null_count == 0
    table.cluster()
    assert hashes(table) == {30}


def test_cached_statistics_are_bounded_and_local(tmp_path: Path) -> None:
    table = table_of_files(tmp_path, "global-bloom:")
    snapshot, reads = opened_table(table).snapshot(), list[str]()

    def ask(statistics: FooterStatistics, partition_path: str) -> KeyStatistics:
        (file_slice,) = snapshot.slices.of_partitions({partition_path})
        with snapshot.reader(file_slice) as reader:

            def opened() -> SliceReader:
                reads.append(partition_path)
                return reader

            return statistics.of(file_slice, opened)

    statistics = FooterStatistics(statistics_cache(3 * ask(FooterStatistics(statistics_cache()), "p0").nbytes))
    reads.clear()
    for path in ("p0", "p1", "p2", "p0", "p3", "p0", "p1"):
        assert ask(statistics, path).key_range == (f"{path[1]}000", f"{path[1]}099")
    assert reads == ["p0", "p1", "p2", "p3", "p1"]
    ask(pickle.loads(pickle.dumps(statistics)), "p1")  # noqa: S301  (made here)
    assert reads.count("p1") == 3
