"""Writes that change many small file groups: these are merged together, and nobody can tell."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from threading import get_ident
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rli import Table
from rli.file_group.work_rows import CHANGE, RECORD_KEY, Change, work_schema
from rli.file_group.write_context import FileGroupTarget, WriteContext
from rli.file_group.writer import TOGETHER_BYTES, write_file_groups
from rli.hudi.meta_columns import FILE_NAME
from rli.model import FileGroupId, WriteCounts
from rli.storage import Storage
from rli.table.table import opened_table
from rli.view.file_slice_reader import FileSliceReader
from rli.view.paths import unpublished_file, unpublished_files
from rli.write.engine.write_plan import FileGroupWriting, RowPlacing, WritePlan
from tests.support.soak import cases
from tests.support.tables import check_stored, records, rows_of

_CITIES: Final = [f"city-{number}" for number in range(60)]
"""So many that several of their files are merged together, on any number of threads."""

_CITY: Final = pa.schema([("city", pa.string())])

_KEYS: Final = [f"key-{number}" for number in range(400)]

_INSTANT: Final = "20991231120000123"

Model = dict[str, tuple[str, int, float]]


def values(table: Table) -> Model:
    return {row["id"]: (row["city"], row["ts"], row["v"]) for row in rows_of(table)}


@pytest.mark.parametrize("seed", range(cases(1)))
def test_writes_equal_model_with_many_files(trips: Table, seed: int) -> None:
    chance, model = random.Random(seed), Model()
    for _ in range(3):
        batch = {
            key: (chance.choice(_CITIES), chance.randrange(9), chance.random()) for key in chance.sample(_KEYS, 250)
        }
        # Some records come again as they are stored.
        batch |= {key: model[key] for key in chance.sample(sorted(model), len(model) // 3)}
        newer = {key: row for key, row in batch.items() if key not in model or row[1] >= model[key][1]}
        moved = sum(key in model and model[key][0] != row[0] for key, row in newer.items())
        inserted = sum(key not in model for key in batch)
        result = trips.upsert(records(*((key, *row) for key, row in batch.items())))
        assert (result.inserted, result.moved) == (inserted, moved)
        assert result.updated + result.unchanged == len(batch) - inserted - moved
        model |= newer
        assert values(trips) == model
        gone = chance.sample(sorted(model), 40)
        assert trips.delete([*gone, "unknown"]).deleted == len(gone)
        model = {key: row for key, row in model.items() if key not in gone}
        assert values(trips) == model
        check_stored(trips)


def test_parts_of_any_size_agree(trips: Table) -> None:
    trips.upsert(records(*((key, _CITIES[number % 60], 1, 1.0) for number, key in enumerate(_KEYS))))
    snapshot, storage = opened_table(trips).snapshot(), opened_table(trips).definition.storage
    assert snapshot.schema is not None
    changed = records(*((key, _CITIES[number % 60], 2, float(number)) for number, key in enumerate([*_KEYS, "new"])))
    schema, told = work_schema(snapshot.schema), list[tuple[list[WriteCounts], list[pa.Table]]]()
    storage.make_folder(unpublished_files(_INSTANT))
    for token, held_bytes in (("9-9-1", 1 << 25), ("9-9-2", 2_000)):
        context = WriteContext(storage, _INSTANT, snapshot.schema, "ts", ("city",), "zstd", held_bytes=held_bytes)
        targets = [FileGroupTarget(group, base, token) for group, base in snapshot.slices.items()]
        parts = [_upserting(changed, target.group.partition_path, schema) for target in targets]
        results = write_file_groups(context, targets, pa.concat_tables(parts), [part.num_rows for part in parts])
        written = [storage.full_path(unpublished_file(_INSTANT, result.stat.path)) for result in results if result.stat]
        files = [pq.read_table(path, partitioning=None).drop_columns([FILE_NAME]) for path in written]
        told.append(([result.counts for result in results], files))
    assert told[0] == told[1]
    assert sum(file.num_rows for file in told[0][1]) == len(_KEYS) + 1


def _upserting(changed: pa.Table, city: str, schema: pa.Schema) -> pa.Table:
    """The work rows of a city's records."""
    rows = changed.filter(pc.equal(changed["city"], city))
    columns = {name: rows[name] if name in rows.column_names else pa.nulls(rows.num_rows) for name in schema.names}
    columns |= {RECORD_KEY: rows["id"], CHANGE: pa.repeat(pa.scalar(int(Change.UPSERT)), rows.num_rows)}
    return pa.table(columns).cast(schema)


def test_files_with_equal_records_are_skipped(trips: Table) -> None:
    rows = [(key, city, 1, 1.0) for key, city in zip(_KEYS, _CITIES, strict=False)]
    trips.upsert(records(*rows))
    changed = [(key, city, 1, float(number < 7)) for number, (key, city, *_) in enumerate(rows, start=1)]
    result = trips.upsert(records(*changed))
    assert (result.files_rewritten, result.updated, result.unchanged) == (54, 54, 6)


def test_files_with_many_records_merge_alone(trips: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    trips.upsert(records(*((key, _CITIES[number % 60], 1, 1.0) for number, key in enumerate(_KEYS))))
    # So many that some of the others follow each other.
    large = {city for number, city in enumerate(_CITIES) if not number % 3}
    monkeypatch.setattr(
        FileSliceReader,
        "has_few_rows",
        property(lambda reader: reader.read_columns(_CITY)["city"][0].as_py() not in large),
    )
    changed = [(key, _CITIES[number % 60], 2, float(number % 2)) for number, key in enumerate(_KEYS)]
    assert trips.upsert(records(*changed, ("new", _CITIES[0], 1, 1.0))).updated == 400
    assert values(trips) == {key: (city, ts, v) for key, city, ts, v in changed} | {"new": (_CITIES[0], 1, 1.0)}
    check_stored(trips)


def test_each_thread_opens_single_file(trips: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    trips.upsert(records(*((key, city, 1, 1.0) for key, city in zip(_KEYS, _CITIES, strict=False))))
    opened, most, close = Counter[int](), list[int](), FileSliceReader.close

    def counted(reader: FileSliceReader) -> FileSliceReader:
        opened[get_ident()] += 1
        most.append(opened[get_ident()])
        return reader

    def uncounted(reader: FileSliceReader) -> None:
        opened[get_ident()] -= 1
        close(reader)

    monkeypatch.setattr(FileSliceReader, "__enter__", counted)
    monkeypatch.setattr(FileSliceReader, "close", uncounted)
    result = trips.upsert(records(*((key, city, 2, 2.0) for key, city in zip(_KEYS, _CITIES, strict=False))))
    assert (result.updated, len(most), max(most)) == (60, 60, 1)
    assert not +opened


def test_lots_are_bounded_and_shared(tmp_path: Path) -> None:
    sizes = {
        FileGroupId("", f"{number:04}"): float(size)
        for number, size in enumerate([100] * 500 + [TOGETHER_BYTES // 3] * 5 + [TOGETHER_BYTES * 9] + [0] * 3)
    }
    groups = [*sizes]
    context = WriteContext(Storage(str(tmp_path)), "1", pa.schema([]), None, (), "zstd")
    plan = WritePlan(RowPlacing({}), FileGroupWriting(context, {}), sizes)
    assert [len(lot) for lot in plan.lots(groups, 2)] == [64] * 7 + [54, 3, 1, 3]
    assert [number for lot in plan.lots(groups, 2) for number in lot] == [*range(len(groups))]
    assert [len(lot) for lot in plan.lots(groups[:10], 2)] == [2] * 5
    assert plan.lots([], 2) == []
