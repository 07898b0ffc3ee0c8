from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.metadata.groups import groups_of
from rli.hudi.metadata.log_blocks import BlockKind, Header, log_blocks, removed_keys
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import record_locations
from tests.support.metadata_tables import metadata_reader, unpack_metadata_table


def _block(kind: BlockKind, headers: dict[Header, str], content: bytes = b"") -> bytes:
    head = b"".join(struct.pack(">ii", name, len(text)) + text.encode() for name, text in headers.items())
    body = struct.pack(">iii", 1, kind, len(headers)) + head + struct.pack(">q", len(content)) + content + bytes(4)
    return b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


EMPTY = _block(BlockKind.DELETE, {Header.INSTANT: "1"}, struct.pack(">ii", 3, 0))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not changed by any test."""
    return unpack_metadata_table("v6", tmp_path_factory.mktemp("table"))


@given(st.binary(max_size=60), st.integers(len("#HUDI#"), len(EMPTY)))
def test_torn_blocks_are_passed_over(rest: bytes, cut: int) -> None:
    blocks = list(log_blocks(EMPTY + EMPTY[:cut] + rest.replace(b"#HUDI#", b"") + EMPTY))
    whole = [block for block in blocks if block.kind is not None]
    assert {removed_keys(block) == [] for block in whole} == {True}
    assert len(whole) >= 2


@given(st.data())
def test_damaged_blocks_never_hang(table: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(table.glob(".hoodie/metadata/record_index/.*log*"))))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptTableError, UnsupportedTableError):
        for block in log_blocks(bytes(content)):
            if block.kind is BlockKind.DELETE:
                removed_keys(block)


def test_rollbacks_take_changes_back(tmp_path: Path) -> None:
    table = unpack_metadata_table("v6", tmp_path)
    before = metadata_reader(table)
    found = record_locations(before, pa.array(["k005"]))
    assert found.num_rows == 0
    (group,) = (group for group in before.groups("record_index") if _holds(before, "k005", group.file_id))
    (last,) = group.logs[-1:]
    (deletes,) = (block for block in log_blocks((table / last.path).read_bytes()) if block.kind is BlockKind.DELETE)
    rollback = _block(BlockKind.COMMAND, {Header.TARGET_INSTANT: deletes.headers[Header.INSTANT]})
    name = group.names[-1]
    (table / last.path).with_name(f".{name.file_id}_{name.instant}.log.{name.version + 1}_0-0-0").write_bytes(rollback)
    assert record_locations(metadata_reader(table), pa.array(["k005"])).num_rows == 1


def test_other_blocks_are_refused_by_name(tmp_path: Path) -> None:
    table = unpack_metadata_table("v6", tmp_path)
    (group,) = metadata_reader(table).groups("files")
    last, instant = table / group.logs[-1].path, _last_instant(table / group.logs[-1].path)
    content = last.read_bytes()
    compacted = {Header.INSTANT: instant, Header.COMPACTED_INSTANTS: instant}
    for block in (_block(BlockKind.HFILE, compacted), _block(BlockKind.PARQUET, {Header.INSTANT: instant})):
        last.write_bytes(content + block)
        with pytest.raises(UnsupportedTableError, match="files-0000-0"):
            list(metadata_reader(table).scan("files"))


def test_cut_logs_are_refused(tmp_path: Path) -> None:
    table = unpack_metadata_table("v9", tmp_path)
    (group,) = metadata_reader(table).groups("files")
    path = table / group.logs[-1].path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptTableError, match="files-0000-0"):
        list(metadata_reader(table).scan("files"))


def _last_instant(path: Path) -> str:
    *_, last = log_blocks(path.read_bytes())
    return last.headers[Header.INSTANT]


def _holds(reader: MetadataTableReader, key: str, file_id: str) -> bool:

    groups = reader.groups("record_index")
    return groups[int(groups_of(pa.array([key]), len(groups))[0])].file_id == file_id
