"""The records of slices with log files are those of a plain model, whatever the blocks and however they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rli
from rli.file_group.stored_records import records_of
from rli.hudi.avro_schema import to_avro
from rli.hudi.log_file.avro_block import avro_block
from rli.hudi.log_file.base_rows import UNKNOWN, BaseRows
from rli.hudi.log_file.delete_block import delete_block, deletes
from rli.hudi.log_file.parquet_block import parquet_block
from rli.hudi.log_file.rollback_block import rollback_block
from rli.hudi.meta_columns import IS_DELETED, META_COLUMNS, RECORD_KEY
from rli.hudi.properties import Key, TableProperties
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.file_slices import DataFile, FileSlice, SeenInstants
from rli.view.key_columns import META_KEYS
from rli.view.merging.known_merges import KnownMerges
from rli.view.merging.merged_reader import MergedReader, MergedTable
from rli.view.merging.rules import MergeRules
from tests.support.soak import FACTOR

SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in META_COLUMNS),
        pa.field("ts", pa.int64()),
        pa.field("value", pa.string()),
        pa.field(IS_DELETED, pa.bool_()),
    ]
)
KEYS: Final = [f"k{number}" for number in range(6)]
GROUP: Final = FileGroupId("", "f-0")
BASE: Final = "20250101000000000"


@dataclass(frozen=True)
class Change:
    """A row of a block; a delete block has no value, and no ordering value (as Hudi's own delete) or one."""

    key: str
    ts: int | None
    value: str | None
    is_marked: bool = False


@dataclass(frozen=True)
class Block:
    """A block of a log file; an undo has the number of the instant that it undoes, and no changes.

    It tells the positions of its records in the base file that has a name; None for a block that tells none.
    """

    kind: str
    instant: int
    changes: tuple[Change, ...] = ()
    base_file: str | None = None


BASE_FILE: Final = f"f-0_0-0-0_{BASE}.parquet"
NAMES: Final = st.sampled_from([BASE_FILE, BASE_FILE, "f-0_0-0-0_20240101000000000.parquet", None])


def rows(marked: st.SearchStrategy[bool]) -> st.SearchStrategy[Change]:
    return st.builds(Change, st.sampled_from(KEYS), st.integers(-2, 4), st.text("xy", max_size=3), marked)


BLOCKS: Final = st.one_of(
    st.builds(
        Block,
        st.sampled_from(["avro", "parquet"]),
        st.integers(1, 5),
        st.lists(rows(st.booleans()), min_size=1, max_size=6).map(tuple),
        NAMES,
    ),
    st.builds(
        Block,
        st.just("delete"),
        st.integers(1, 5),
        st.lists(st.builds(Change, st.sampled_from(KEYS), st.integers(-2, 4), st.none()), min_size=1, max_size=4).map(
            tuple
        ),
        NAMES,
    ),
    st.builds(
        Block,
        st.just("delete"),
        st.integers(1, 5),
        st.lists(st.builds(Change, st.sampled_from(KEYS), st.none(), st.none()), min_size=1, max_size=4).map(tuple),
        NAMES,
    ),
    st.builds(Block, st.just("undo"), st.integers(1, 5)),
)
BASES: Final = st.none() | st.lists(rows(st.just(value=False)), max_size=6, unique_by=lambda row: row.key)


@dataclass(frozen=True)
class Slice:
    """A file slice of a table whose log files several instants wrote to.

    Attributes:
        base: records of the base file; None without one.
        files: the blocks of each log file.
        seen: the instants whose blocks count.
        ordering: the ordering column; None if the last change counts.
    """

    base: list[Change] | None
    files: list[list[Block]]
    seen: frozenset[int]
    ordering: str | None


SLICES: Final = st.builds(
    Slice,
    BASES,
    st.lists(st.lists(BLOCKS, max_size=4), max_size=3),
    st.frozensets(st.integers(1, 5)),
    st.sampled_from(["ts", None]),
)


def instant(number: int) -> str:
    return str(int(BASE) + number)


def expected(given: Slice) -> dict[str, tuple[int | None, str | None]]:
    """The changes are folded first, each key for itself; then they meet the base file."""
    counting, is_ordered = list[Block](), given.ordering is not None
    for block in (block for file in given.files for block in file):
        if block.kind == "undo":
            counting = [one for one in counting if one.instant != block.instant]
        elif block.instant in given.seen:
            counting.append(block)
    folded: dict[str, Change] = {}
    for change in (one for block in counting for one in block.changes):
        former = folded.get(change.key)
        if former is None or change.ts is None or not is_ordered:
            folded[change.key] = change
        elif former.ts is None:
            # A delete without an ordering value stays until a record follows, whatever its ordering value.
            folded[change.key] = former if change.value is None else change
        elif change.ts >= former.ts:
            folded[change.key] = change
    found = {row.key: row for row in given.base or []}
    for key, change in folded.items():
        row = found.get(key)
        if row is None or not is_ordered or change.ts is None or change.ts >= (row.ts or 0):
            found[key] = change
    return {key: (row.ts, row.value) for key, row in found.items() if row.value is not None and not row.is_marked}


def batch(changes: Sequence[Change]) -> pa.RecordBatch:
    listed = [
        dict.fromkeys(META_COLUMNS) | {RECORD_KEY: one.key, "ts": one.ts, "value": one.value, IS_DELETED: one.is_marked}
        for one in changes
    ]
    return pa.RecordBatch.from_pylist(listed, SCHEMA)


def base_rows(block: Block, base: Sequence[Change]) -> BaseRows | None:
    """The positions of a block's records; of another base file, none is right."""
    if block.base_file is None:
        return None
    places = {row.key: place if block.base_file == BASE_FILE else 5 - place for place, row in enumerate(base)}
    return BaseRows(block.base_file, np.array([places.get(one.key, UNKNOWN) for one in block.changes], np.int64))


def encoded(block: Block, base: Sequence[Change]) -> bytes:
    schema, time = to_avro(SCHEMA, "trip"), instant(block.instant)
    if block.kind == "undo":
        return rollback_block(instant(9), time)
    if block.kind == "delete":
        given = [one.ts for one in block.changes]
        ordering = None if None in given else pa.array(given, pa.int64())
        deleted = deletes(pa.array([one.key for one in block.changes]), "", ordering)
        return delete_block(time, deleted, None, base_rows(block, base))
    if block.kind == "avro":
        return avro_block(time, [batch(block.changes)], schema)
    return parquet_block(time, [batch(block.changes)], schema, base_rows=base_rows(block, base))


def reader_of(folder: Path, given: Slice, known: KnownMerges) -> MergedReader:
    logs = []
    for number, blocks in enumerate(given.files, 1):
        name = f".f-0_{BASE}.log.{number}_0-0-0"
        content = b"".join(encoded(block, given.base or []) for block in blocks)
        (folder / name).write_bytes(content)
        logs.append(DataFile(name, len(content)))
    stored = None
    if given.base is not None:
        # Small row groups, so that single keys are sought in several.
        pq.write_table(pa.Table.from_batches([batch(given.base)], SCHEMA), folder / BASE_FILE, row_group_size=2)
        stored = DataFile(BASE_FILE, (folder / BASE_FILE).stat().st_size)
    completed = SeenInstants(frozenset(map(instant, given.seen)), BASE, None, frozenset())
    file_slice = FileSlice(GROUP, BASE, stored, tuple(logs), completed)
    table = MergedTable(Storage(str(folder)), MergeRules(given.ordering), SCHEMA, lambda _: META_KEYS, known)
    return MergedReader(table, file_slice)


def found_in(tables: Sequence[pa.Table]) -> dict[str, tuple[int | None, str | None]]:
    listed = [row for table in tables for row in table.to_pylist()]
    found = {row[RECORD_KEY]: (row["ts"], row["value"]) for row in listed}
    assert len(found) == len(listed)
    return found


@pytest.mark.invariant("P56")
@given(
    given_slice=SLICES,
    sought=st.lists(st.sampled_from([*KEYS, "none"]), min_size=1, unique=True),
)
@settings(max_examples=60 * FACTOR, deadline=None)
def test_merge_equals_a_plain_model(
    tmp_path_factory: pytest.TempPathFactory, given_slice: Slice, sought: list[str]
) -> None:
    model, folder, known = expected(given_slice), tmp_path_factory.mktemp("slice"), KnownMerges()
    # The second reader knows the blocks, the third one the whole merge and the records of log files.
    for begins_with_keys in (True, False, False):
        with reader_of(folder, given_slice, known) as reader:
            if begins_with_keys:
                require_keys(reader, sought, model)
                continue
            values = reader.read_columns(pa.schema([SCHEMA.field("value")]))
            read = list(reader.batches(SCHEMA))
            assert found_in(read) == model
            assert values == pa.concat_tables([SCHEMA.empty_table(), *read]).select(["value"])
            assert reader.rows == len(model)
            asked = [
                row for row in pa.concat_tables([SCHEMA.empty_table(), *read]).to_pylist() if row[RECORD_KEY] in sought
            ]
            assert records_of(reader, pa.array(sought), SCHEMA).to_pylist() == asked
            compared = pa.schema([SCHEMA.field("ts")])
            assert records_of(reader, pa.array(sought), compared)["ts"].to_pylist() == [row["ts"] for row in asked]
            require_keys(reader, sought, model)
            some = np.arange(0, len(model), 2)
            at = [row for records in reader.records_at(some, SCHEMA) for row in records.to_pylist()]
            assert at == [row for records in read for row in records.to_pylist()][::2]


def test_later_column_counts_its_records(tmp_path: Path) -> None:
    """Neither base file nor blocks have it, so nothing else tells how many records there are."""
    rows, later = [Change("k1", 1, "x"), Change("k2", 1, "y")], pa.schema([pa.field("later", pa.int64())])
    blocks = [Block("parquet", 1, (Change("k2", 2, "z"),)), Block("avro", 2, (Change("k3", 2, "z"),))]
    given_slice, known = Slice(rows, [blocks], frozenset([1, 2]), "ts"), KnownMerges()
    for _ in range(2):
        with reader_of(tmp_path, given_slice, known) as reader:
            assert reader.read_columns(later).num_rows == 3
            at = [*reader.records_at(np.array([0, 2]), later)]
            assert sum(records.num_rows for records in at) == 2


def require_keys(reader: MergedReader, sought: list[str], model: dict[str, tuple[int | None, str | None]]) -> None:
    parts = list(reader.find(pa.array(sought), META_KEYS, SCHEMA))
    assert found_in([part.records for part in parts]) == {key: model[key] for key in sought if key in model}
    assert all(part.keys.to_pylist() == part.records[RECORD_KEY].to_pylist() for part in parts)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hoodie.compaction.payload.class": "com.example.OwnPayload"}, r"payload\.class=com\.example\.OwnPayload"),
        ({Key.VERSION: "9", Key.LAYOUT_VERSION: "2", Key.MERGE_MODE: "CUSTOM"}, r"merge\.mode=CUSTOM"),
        ({Key.ORDERING_FIELDS: "ts,value"}, "ts,value"),
        ({Key.ORDERING_FIELDS: "nested.ts"}, r"nested\.ts"),
        ({Key.PARTIAL_UPDATE_MODE: "IGNORE_DEFAULTS"}, "IGNORE_DEFAULTS"),
        ({"hoodie.record.merge.strategy.id": "1c9b2b1e-0000-4000-8000-000000000000"}, r"strategy\.id=1c9b2b1e"),
        ({"hoodie.record.merge.property.hoodie.payload.delete.field": "op"}, r"delete\.field=op"),
    ],
)
def test_unknown_rules_are_named(changes: dict[str, str], reason: str) -> None:
    raw = {Key.NAME: "t", Key.TYPE: "MERGE_ON_READ", Key.VERSION: "6", Key.RECORD_KEY_FIELDS: "id"}
    properties = TableProperties.from_raw({**raw, **changes})
    with pytest.raises(rli.UnsupportedTableError, match=reason):
        MergeRules.of(properties)


@pytest.mark.parametrize("stored", [None, 5])
def test_records_without_ordering_are_refused(tmp_path: Path, stored: int | None) -> None:
    """Releases of Hudi differ in what such a record wins over."""
    block = Block("avro", 1, (Change("k1", None if stored else 7, "x"),))
    given_slice = Slice([Change("k1", stored, "y")], [[block]], frozenset([1]), "ts")
    with (
        reader_of(tmp_path, given_slice, KnownMerges()) as reader,
        pytest.raises(rli.UnsupportedTableError, match="no ordering value"),
    ):
        list(reader.batches(SCHEMA))


def test_blocks_of_other_commits_are_refused(tmp_path: Path) -> None:
    """From table version 8 on, each log file belongs to one commit."""
    content = encoded(Block("avro", 1, (Change("k1", 1, "x"),)), [])
    (tmp_path / f".f-0_{BASE}.log.1_0-0-0").write_bytes(content)
    file = DataFile(f".f-0_{BASE}.log.1_0-0-0", len(content))
    table = MergedTable(Storage(str(tmp_path)), MergeRules(None), SCHEMA, lambda _: META_KEYS, KnownMerges())
    with pytest.raises(rli.UnsupportedTableError, match="other commits than its own"):
        MergedReader(table, FileSlice(GROUP, BASE, None, (file,)))


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_cut_log_is_an_error(tmp_path: Path, cut: int) -> None:
    """A file that one commit wrote has no block of a dead writer."""
    content: Any = encoded(Block("avro", 1, (Change("k1", 1, "x"),)), [])
    (tmp_path / ".f-0_1.log.1_0-0-0").write_bytes(content[:-cut])
    file = DataFile(".f-0_1.log.1_0-0-0", len(content))
    table = MergedTable(Storage(str(tmp_path)), MergeRules(None), SCHEMA, lambda _: META_KEYS, KnownMerges())
    for listed in (file, DataFile(file.path, len(content) - cut)):
        with pytest.raises(rli.CorruptTableError, match=r"log\.1_0-0-0"):
            MergedReader(table, FileSlice(GROUP, BASE, None, (listed,)))
