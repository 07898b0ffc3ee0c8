"""The check of a metadata table finds each error that is planted in one record, and none where there is none."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard

import pyarrow as pa
import pytest

from rli import create_table
from rli.errors import CorruptTableError
from rli.hudi.hfile.cells import CELLS
from rli.hudi.hfile.writer import write_hfile
from rli.hudi.metadata.record_codec import decode_record, encode_record
from rli.hudi.metadata.records import (
    Bound,
    ColumnStatistics,
    FileList,
    ListedFile,
    MetadataRecord,
    RecordLocation,
    StoredBloomFilter,
)
from rli.hudi.metadata.schema import schema_text_of
from tests.support.metadata_tables import differences, metadata_reader
from tests.support.soak import cases
from tests.support.tables import records, turn_into_version_9

Records: TypeAlias = dict[bytes, MetadataRecord]
"""Key → record, of a file group."""
Plant: TypeAlias = Callable[[Records, bytes, random.Random], object]
"""Changes the record of a key, or puts another one beside it."""

_PARTITIONS: Final = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")
_TRIES: Final = cases(1)


def _drop(found: Records, key: bytes, _: random.Random) -> None:
    del found[key]


def _list_of(found: Records, key: bytes) -> FileList:
    record = found[key]
    assert isinstance(record, FileList)
    return record


def _lose_a_file(found: Records, key: bytes, chance: random.Random) -> None:
    record = _list_of(found, key)
    lost = chance.choice(sorted(record.files))
    found[key] = replace(record, files={name: file for name, file in record.files.items() if name != lost})


def _resize_a_file(found: Records, key: bytes, chance: random.Random) -> None:
    record = _list_of(found, key)
    name = chance.choice(sorted(record.files))
    change = ListedFile(0, is_deleted=True) if record.lists_partitions else ListedFile(record.files[name].size + 1)
    found[key] = replace(record, files={**record.files, name: change})


def _list_a_file_more(found: Records, key: bytes, chance: random.Random) -> None:
    key = chance.choice([other for other in sorted(found) if not _list_of(found, other).lists_partitions])
    record = _list_of(found, key)
    name = f"{chance.getrandbits(32):08x}-0000-4000-8000-000000000000-0_0-0-0_20260101000000000.parquet"
    found[key] = replace(record, files={**record.files, name: ListedFile(9)})


def _statistics(change: Callable[[ColumnStatistics, random.Random], Mapping[str, object]]) -> Plant:
    def plant(found: Records, key: bytes, chance: random.Random) -> None:
        record = found[key]
        assert isinstance(record, ColumnStatistics)
        found[key] = replace(record, **change(record, chance))  # type: ignore[arg-type]

    return plant


def _other_bound(bound: Bound | None, chance: random.Random) -> Bound:
    if bound is None:
        return Bound("LongWrapper", 7)
    if isinstance(bound.value, str):
        return replace(bound, value=bound.value + "~" if chance.random() < 0.5 else bound.value[:-1])
    assert isinstance(bound.value, int | float)
    return replace(bound, value=bound.value + chance.choice((-1, 1)))


def _other_filter(found: Records, key: bytes, _: random.Random) -> None:
    record = found[key]
    assert isinstance(record, StoredBloomFilter)
    found[key] = replace(record, content=record.content[:-4] + bytes(reversed(record.content[-4:])) + b"AAAA")


def _other_form_of_filter(found: Records, key: bytes, _: random.Random) -> None:
    record = found[key]
    assert isinstance(record, StoredBloomFilter)
    found[key] = replace(record, type_code="DYNAMIC_V0" if record.type_code == "SIMPLE" else "SIMPLE")


def _other_group(found: Records, key: bytes, _: random.Random) -> None:
    record = found[key]
    assert isinstance(record, RecordLocation)
    found[key] = replace(record, file_id="00000000-0000-4000-8000-000000000000-0")


def _other_partition(found: Records, key: bytes, _: random.Random) -> None:
    record = found[key]
    assert isinstance(record, RecordLocation)
    found[key] = replace(record, partition_path=record.partition_path + "~")


def _entry_more(found: Records, key: bytes, _: random.Random) -> None:
    found[key + b"~"] = found[key]


def _another_record(found: Records, key: bytes, chance: random.Random) -> None:
    """That of another key of the file group which says something else."""
    others = sorted(other for other in found if found[other] != found[key])
    found[key] = found[chance.choice(others)]


_OF_STATISTICS: Final = {
    "lost": _drop,
    "minimum": _statistics(lambda record, chance: {"minimum": _other_bound(record.minimum, chance)}),
    "maximum": _statistics(lambda record, chance: {"maximum": _other_bound(record.maximum, chance)}),
    "no maximum": _statistics(lambda _, __: {"maximum": None}),
    "values": _statistics(lambda record, _: {"value_count": (record.value_count or 0) + 1}),
    "nulls": _statistics(lambda record, _: {"null_count": (record.null_count or 0) + 1}),
    "deleted": _statistics(lambda _, __: {"is_deleted": True}),
    "of another": _another_record,
}
_PLANTS: Final[Mapping[str, Mapping[str, Plant]]] = {
    "files": {"lost": _drop, "file lost": _lose_a_file, "size": _resize_a_file, "file more": _list_a_file_more},
    "column_stats": _OF_STATISTICS,
    "partition_stats": _OF_STATISTICS,
    "bloom_filters": {
        "lost": _drop,
        "content": _other_filter,
        "form": _other_form_of_filter,
        "of another": _another_record,
    },
    "record_index": {
        "lost": _drop,
        "group": _other_group,
        "partition": _other_partition,
        "more": _entry_more,
    },
}


@dataclass(frozen=True)
class _Compacted:
    """A table whose metadata table has base files alone."""

    path: Path

    def groups(self, partition: str) -> Iterator[tuple[Path, Records]]:
        reader = metadata_reader(self.path)
        for group in reader.groups(partition):
            batches = list(reader.scan_group(partition, group))
            cells = {
                key: decode_record(value)
                for batch in batches
                for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
            }
            if group.base is not None and cells:
                yield self.path / group.base.path, cells

    @staticmethod
    def write(file: Path, found: Records) -> None:
        schema, keys = schema_text_of(9), sorted(found)
        cells = pa.record_batch([keys, [encode_record(found[key], schema) for key in keys]], schema=CELLS)
        sink = io.BytesIO()
        write_hfile(sink, [cells] if keys else [], schema)
        file.write_bytes(sink.getvalue())


def _row(number: int, ts: int) -> tuple[object, ...]:
    return f"k{number}", ("Oslo", "Rome", "Bern")[number % 3], ts * 100 + number, None if number == 5 else number / 2


@pytest.fixture(scope="module", params=[6, 9])
def compacted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _Compacted:
    path = tmp_path_factory.mktemp("planted") / "t"
    with create_table(path, record_key="id", partition_by="city", ordering="ts", maintenance=False) as table:
        if request.param == 9:
            turn_into_version_9(table)
        for ts in range(2):
            table.upsert(records(*(_row(ts * 4 + n, ts) for n in range(8))))
        table.metadata.enable(_PARTITIONS)
        assert table.metadata.verify() == ()
    return _Compacted(path)


@pytest.mark.parametrize(
    ("partition", "kind"), [(partition, kind) for partition, plants in _PLANTS.items() for kind in plants]
)
def test_planted_errors_are_found(compacted: _Compacted, partition: str, kind: str) -> None:
    chance = random.Random(f"{partition} {kind}")
    for _ in range(_TRIES):
        file, before = chance.choice([group for group in compacted.groups(partition) if len(group[1]) > 1])
        key, found, content = chance.choice(sorted(before)), dict(before), file.read_bytes()
        _PLANTS[partition][kind](found, key, chance)
        try:
            compacted.write(file, found)
            told = _partitions_told(compacted.path)
        finally:
            file.write_bytes(content)
        assert partition in told, (key, before[key], found.get(key))


def _partitions_told(path: Path) -> set[str]:
    try:
        return {one.partition for one in differences(path)}
    except CorruptTableError as error:
        # Without a list of partitions, there is nothing to compare.
        return {"files"} if "does not list the partitions" in str(error) else set()


@pytest.mark.parametrize("partition", ["column_stats", "partition_stats"])
def test_wide_statistics_are_told_apart(compacted: _Compacted, partition: str) -> None:
    """Those that leave out a value of the table are wrong, whatever else they say."""
    more: dict[str, Any] = {"value_count": 99, "null_count": 9}
    for file, before in compacted.groups(partition):
        of_ts = [(key, one) for key, one in before.items() if _is_of(one, "ts")]
        if not of_ts:
            continue
        key, record = of_ts[0]
        low, high = record.minimum, record.maximum
        assert low is not None
        assert high is not None
        for changed, fault in (
            (more, "wide"),
            ({**more, "minimum": _moved(low, -1), "maximum": _moved(high, 1)}, "wide"),
            ({**more, "minimum": _moved(low, 1)}, "wrong"),
            ({**more, "maximum": _moved(high, -1)}, "wrong"),
            ({**more, "maximum": None}, "wrong"),
            ({"value_count": 99, "null_count": 99}, "wrong"),
            ({"value_count": 0}, "wrong"),
            ({"null_count": -1}, "wrong"),
        ):
            content = file.read_bytes()
            try:
                compacted.write(file, {**before, key: replace(record, **changed)})
                assert [one.fault for one in differences(compacted.path)] == [fault], changed
            finally:
                file.write_bytes(content)
        return
    pytest.fail("no file group has statistics of ts")


def _is_of(record: MetadataRecord, column: str) -> TypeGuard[ColumnStatistics]:
    return isinstance(record, ColumnStatistics) and record.column == column


def _moved(bound: Bound, by: int) -> Bound:
    assert isinstance(bound.value, int)
    return replace(bound, value=bound.value + by)


def test_rewritten_records_are_no_errors(compacted: _Compacted) -> None:
    for partition in _PARTITIONS:
        for file, found in compacted.groups(partition):
            compacted.write(file, found)
    assert differences(compacted.path) == []


def test_stale_statistics_over_logs_are_found(tmp_path: Path) -> None:
    """Without their newest log file, statistics of a partition still say what its base files said."""
    table = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type="merge_on_read",
        maintenance=False,
    )
    turn_into_version_9(table)
    table.upsert(records(("a", "Oslo", 1, 1.0), ("b", "Oslo", 1, 2.0), ("c", "Bern", 1, 1.0)))
    table.metadata.enable(_PARTITIONS)
    table.upsert(records(("a", "Oslo", 2, 1.5)))
    assert differences(tmp_path / "t") == []
    for log in (tmp_path / "t/.hoodie/metadata/partition_stats").glob(".*.log.*"):
        log.unlink()
    found = [(each.partition, each.item, each.fault) for each in differences(tmp_path / "t")]
    assert found == [("partition_stats", "Oslo column=ts", "wrong")]
