from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.merging import merged
from rli.hudi.metadata.overlay import Overlay
from rli.hudi.metadata.record_codec import decode_record, encode_record
from rli.hudi.metadata.records import Bound, ColumnStatistics, FileList, ListedFile, MetadataRecord

KEYS = st.integers(0, 30).map(lambda number: b"k%d" % number)
FILES = st.dictionaries(st.sampled_from("abc"), st.builds(ListedFile, st.integers(0, 9), st.booleans()), max_size=3)
LISTS = st.builds(FileList, FILES)
CHANGES = st.lists(st.dictionaries(KEYS, st.none() | LISTS, max_size=8), max_size=6)
BASES = st.dictionaries(KEYS, LISTS, max_size=20)

State = dict[bytes, FileList]


@given(BASES, CHANGES, st.integers(1, 7))
def test_the_newest_record_stands(base: State, changes: list[dict[bytes, FileList | None]], rows: int) -> None:
    expected: dict[bytes, FileList | None] = dict(base)
    for change in changes:
        expected.update(change)
    overlay = Overlay.of([_cells(change) for change in changes], merges=False)
    assert _read(overlay.over(_batches(base, rows))) == {key: value for key, value in expected.items() if value}


@given(BASES, CHANGES, st.integers(1, 7))
def test_records_of_one_key_merge(base: State, changes: list[dict[bytes, FileList | None]], rows: int) -> None:
    expected: dict[bytes, MetadataRecord | None] = {}
    for key in {*base, *(key for change in changes for key in change)}:
        since = [change[key] for change in changes if key in change]
        last_removal = max((place for place, record in enumerate(since) if record is None), default=None)
        folded: MetadataRecord | None = None
        for record in since if last_removal is None else since[last_removal + 1 :]:
            folded = record and merged(folded, record)
        if last_removal is None and key in base:
            folded = merged(base[key], folded) if folded else base[key]
        expected[key] = folded
    overlay = Overlay.of([_cells(change) for change in changes], merges=True)
    assert _read(overlay.over(_batches(base, rows))) == {key: value for key, value in expected.items() if value}


def test_tight_statistics_hide_the_base() -> None:
    overlay = Overlay.of(
        [_cells({b"k": _statistics(5, 6, is_tight=True)}), _cells({b"k": _statistics(7, 8)})], merges=True
    )
    assert _read(overlay.over(_batches({b"k": _statistics(0, 9)}, 1))) == {b"k": _statistics(5, 8, count=2)}


def test_statistics_without_order_vanish() -> None:
    strings = ColumnStatistics("f", "n", Bound("StringWrapper", "a"), Bound("StringWrapper", "b"), 1, 0, 1, 1)
    for base, log in ((_statistics(0, 9), strings), (strings, _statistics(0, 9))):
        assert _read(Overlay.of([_cells({b"k": log})], merges=True).over(_batches({b"k": base}, 1))) == {}
        assert _read(Overlay.of([_cells({b"k": base}), _cells({b"k": log})], merges=True).over([])) == {}


def _statistics(minimum: int, maximum: int, *, count: int = 1, is_tight: bool = False) -> ColumnStatistics:
    bounds = Bound("IntWrapper", minimum), Bound("IntWrapper", maximum)
    return ColumnStatistics("f", "n", *bounds, count, 0, count, count, is_tight=is_tight)


def _cells(records: Mapping[bytes, MetadataRecord | None]) -> pa.RecordBatch:
    values = [b"" if record is None else encode_record(record) for record in records.values()]
    return pa.record_batch([pa.array(records, pa.binary()), pa.array(values, pa.binary())], schema=CELLS)


def _batches(records: Mapping[bytes, MetadataRecord], rows: int) -> list[pa.RecordBatch]:
    cells = _cells(dict(sorted(records.items())))
    return [cells.slice(start, rows) for start in range(0, cells.num_rows, rows)]


def _read(batches: Iterable[pa.RecordBatch]) -> dict[bytes, MetadataRecord]:
    keys: list[bytes] = []
    values: list[bytes] = []
    for batch in batches:
        keys += batch["key"].to_pylist()
        values += batch["value"].to_pylist()
    assert keys == sorted(set(keys))
    return {key: decode_record(value) for key, value in zip(keys, values, strict=True)}
