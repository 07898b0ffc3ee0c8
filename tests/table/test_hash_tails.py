"""Writes find the records of keys that the index places in a file by hashes of 48 bits, and change no other record."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from rli.hudi.base_file_reader import BaseFileReader
from rli.hudi.base_file_writer import ROWS_PER_ROW_GROUP
from rli.hudi.key_hashes import KeyHashes, StoredHashes
from tests.support.crafted_keys import alike

ROWS: Final = 40_000
KEYS: Final = [f"key-{number:016}" for number in range(ROWS)]
TWIN, OTHER_TWIN = alike(1)
LATER, OTHER_LATER = alike(2)
CHECKSUMS: Final = ["16793a62", "1360cb4d", "8d6c5843"]
"""Of blocks of tails, as they are stored."""


@pytest.fixture
def table(tmp_path: Path) -> Iterator[rli.Table]:
    """A single base file, in which two keys share their hashes; updates go to log files."""
    with rli.create_table(
        tmp_path / "table",
        record_key="id",
        ordering="ts",
        table_type="merge_on_read",
        index=f"lmdb://{tmp_path}/index",
        maintenance=False,
        durability="os",
    ) as made:
        made.upsert(rows([*KEYS, TWIN, OTHER_TWIN, LATER], 0))
        yield made


def rows(keys: list[str], ts: int) -> pa.Table:
    return pa.table({"id": keys, "ts": pa.array([ts] * len(keys), pa.int64())})


def changed_at(table: rli.Table, ts: int) -> list[str]:
    found: list[str] = table.read(filters=f"ts = {ts}").column("id").to_pylist()
    return sorted(found)


def some(seed: int, count: int = 1_000) -> list[str]:
    return random.Random(seed).sample(KEYS, count)


def base_file(table: rli.Table) -> Path:
    (path,) = (path for path in map(Path, table.scan().files()) if path.suffix == ".parquet")
    return path


def stored_hashes(path: Path) -> StoredHashes:
    found = StoredHashes.from_footer(pq.read_metadata(path).metadata, path.name)
    assert found is not None
    return found


def test_crafted_keys_share_their_hashes() -> None:
    for first, second in ((TWIN, OTHER_TWIN), (LATER, OTHER_LATER)):
        hashes, tails = KeyHashes.of(pa.array([first, second]))
        assert first != second
        assert len({*hashes.tolist()}) == len({*tails.tolist()}) == 1


def test_hashes_and_tails_stay_the_same() -> None:
    # Files of other releases have them.
    hashes, tails = KeyHashes.of(pa.array(["", "o77", None, "x" * 40]))
    assert hashes.tolist() == [0, 8_105, 0, 3_936]
    assert tails.tolist() == [0, 2_530_353_856, 0, 4_260_607_334]


@pytest.mark.parametrize("updated", [[TWIN], [OTHER_TWIN], [TWIN, OTHER_TWIN]])
def test_equal_hashes_are_told_apart(table: rli.Table, updated: list[str]) -> None:
    keys = [*some(1), *updated]
    result = table.upsert(rows(keys, 1))
    assert result.updated == len(keys)
    assert changed_at(table, 1) == sorted(keys)
    assert table.read().num_rows == ROWS + 3


def test_deletes_leave_keys_of_equal_hashes(table: rli.Table) -> None:
    keys = [*some(2), TWIN]
    table.delete(keys)
    assert table.get([TWIN, *keys]).num_rows == 0
    assert table.get([OTHER_TWIN, LATER]).num_rows == 2
    assert table.read().num_rows == ROWS + 3 - len(keys)


def test_new_key_replaces_no_other(table: rli.Table) -> None:
    """Its own record is in a log file, and the base file has another one with its hashes."""
    table.set_log_inserts(True)
    table.upsert(rows([OTHER_LATER], 1))
    keys = [*some(3), OTHER_LATER]
    result = table.upsert(rows(keys, 2))
    assert result.updated == len(keys)
    assert changed_at(table, 2) == sorted(keys)
    assert sorted(table.get([LATER, OTHER_LATER]).column("ts").to_pylist()) == [0, 2]
    assert {LATER, OTHER_LATER, *KEYS} <= {*table.read().column("id").to_pylist()}
    table.delete(keys)
    assert table.get([LATER, OTHER_LATER]).column("id").to_pylist() == [LATER]


def test_updates_behind_logs_find_their_records(table: rli.Table) -> None:
    model = dict.fromkeys([*KEYS, TWIN, OTHER_TWIN, LATER], 0)
    for ts in range(1, 6):
        keys = [*some(ts), *random.Random(ts).sample([TWIN, OTHER_TWIN, LATER], 2)]
        keys = [key for key in keys if key in model]
        table.upsert(rows(keys, ts))
        model |= dict.fromkeys(keys, ts)
        gone = random.Random(-ts).sample(sorted(model), 300)
        table.delete(gone)
        for key in gone:
            del model[key]
    read = table.read()
    assert dict(zip(read["id"].to_pylist(), read["ts"].to_pylist(), strict=True)) == model
    table.compact()
    assert dict(zip(table.read()["id"].to_pylist(), table.read()["ts"].to_pylist(), strict=True)) == model


@pytest.mark.parametrize("damaged", ["hashes", "tails", "checksum of tails"])
def test_damaged_hashes_change_no_other_record(table: rli.Table, damaged: str) -> None:
    path = base_file(table)
    stored = stored_hashes(path)
    assert stored.tails is not None
    offset = {"hashes": stored.offset, "tails": stored.tails, "checksum of tails": stored.tails + 4 * 4_096}[damaged]
    with path.open("r+b") as file:
        file.seek(offset)
        content = file.read(4)
        file.seek(offset)
        file.write(bytes(byte ^ 0xFF for byte in content))
    table.upsert(rows(some(4), 1))
    assert changed_at(table, 1) == sorted(some(4))


def test_tails_of_others_are_refused(tmp_path: Path) -> None:
    keys = [f"key-{number:016}" for number in range(ROWS_PER_ROW_GROUP + ROWS)]
    with rli.create_table(tmp_path / "table", record_key="id", index="bloom:", durability="os") as made:
        made.upsert(pa.table({"id": keys}))
        path = base_file(made)
        stored = stored_hashes(path)
        rows = [ROWS_PER_ROW_GROUP, ROWS]
        places = [stored.block_of_tails(rows[: group + 1], 0).place for group in range(2)]
        content = bytearray(path.read_bytes())
        first, second = (bytes(content[place.start : place.stop]) for place in places)
        for place, exchanged in zip(places, (second, first), strict=True):
            content[place.start : place.stop] = exchanged
        path.write_bytes(content)
        assert made.get([keys[5], keys[-5]]).num_rows == 2


@pytest.mark.parametrize(
    ("tails", "known"), [("1e999", False), ('"x"', False), ("[]", False), ("null", True), ("4", True)]
)
def test_entries_without_numbers_are_none(tails: str, *, known: bool) -> None:
    content = f'{{"file": "a", "offset": 4, "checksums": [1], "tails": {tails}}}'.encode()
    found = StoredHashes.from_footer({b"rli.key_hashes": content}, "a")
    assert found == (StoredHashes(4, [1], None if tails == "null" else 4) if known else None)


def test_hashes_are_stored_in_one_form() -> None:
    """Files of other releases have them."""
    hashes, tails = np.array([1, 0x1234, 2], np.uint16), np.arange(4_097, dtype=np.uint32) + 0x01020304
    sink = pa.BufferOutputStream()
    sink.write(b"records.")
    stored = StoredHashes.write(sink, [hashes], [tails, tails[:1]])
    content = sink.getvalue().to_pybytes()
    assert stored == StoredHashes(8, [675_481_708], 14)
    assert content[8:14] == bytes([1, 0, 0x34, 0x12, 2, 0])
    # Two blocks of the first row group, one of the second, each with its checksum behind it.
    sizes = [4 * 4_096 + 4, 4 + 4, 4 + 4]
    assert len(content) == 14 + sum(sizes)
    rows = [4_097, 1]
    blocks = [stored.block_of_tails(rows[:1], 0), stored.block_of_tails(rows[:1], 1), stored.block_of_tails(rows, 0)]
    assert [(block.number, len(block.place)) for block in blocks] == [*enumerate(sizes)]
    assert content[blocks[2].place.start : blocks[2].place.start + 4] == bytes([4, 3, 2, 1])
    read = [block.checked(content[block.place.start : block.place.stop]) for block in blocks]
    assert np.concatenate(read).tolist() == [*tails.tolist(), int(tails[0])]
    assert [content[block.place.stop - 4 : block.place.stop].hex() for block in blocks] == CHECKSUMS


@pytest.mark.parametrize(("digits", "has_tails"), [(15, False), (16, True)])
def test_short_keys_have_no_tails(tmp_path: Path, digits: int, *, has_tails: bool) -> None:
    with rli.create_table(tmp_path / "table", record_key="id", index=f"lmdb://{tmp_path}/index") as made:
        made.upsert(pa.table({"id": [f"{number:0{digits}}" for number in range(ROWS)]}))
        assert (stored_hashes(base_file(made)).tails is not None) is has_tails


def test_updates_decode_no_record_keys(table: rli.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read, present_columns = set[str](), BaseFileReader.present_columns

    def noting(reader: BaseFileReader, schema: pa.Schema) -> list[str]:
        read.update(schema.names)
        return present_columns(reader, schema)

    monkeypatch.setattr(BaseFileReader, "present_columns", noting)
    table.upsert(rows(some(5), 1))
    assert read == {"ts"}
