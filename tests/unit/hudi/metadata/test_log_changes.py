from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.file_names import LogFileName
from rli.hudi.log_file.delete_block import NO_DELETES, delete_block, deletes
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.rollback_block import rollback_block
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.groups import groups_of
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import record_locations
from rli.storage import StoredFile
from tests.support.log_blocks import blocks_of
from tests.support.metadata_tables import metadata_reader, unpack_metadata_table


def test_rollbacks_take_changes_back(tmp_path: Path) -> None:
    table = unpack_metadata_table("v6", tmp_path)
    before = metadata_reader(table)
    found = record_locations(before, pa.array(["k005"]))
    assert found.num_rows == 0
    (group,) = (group for group in before.groups("record_index") if _holds(before, "k005", group.file_id))
    (last,) = group.logs[-1:]
    (deletes,) = (block for block in blocks_of((table / last.path).read_bytes()) if block.kind is BlockKind.DELETE)
    rollback = rollback_block("1", undone=deletes.header(Header.INSTANT))
    name = group.names[-1]
    (table / last.path).with_name(f".{name.file_id}_{name.instant}.log.{name.version + 1}_0-0-0").write_bytes(rollback)
    assert record_locations(metadata_reader(table), pa.array(["k005"])).num_rows == 1


def test_other_blocks_are_refused_by_name(tmp_path: Path) -> None:
    table = unpack_metadata_table("v6", tmp_path)
    (group,) = metadata_reader(table).groups("files")
    last, instant = table / group.logs[-1].path, _last_instant(table / group.logs[-1].path)
    content = last.read_bytes()
    compacted = {Header.INSTANT: instant, Header.COMPACTED_INSTANTS: instant}
    for block in (
        encode_block(BlockKind.HFILE, compacted, b""),
        encode_block(BlockKind.PARQUET, {Header.INSTANT: instant}, b""),
    ):
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


def test_short_logs_hold_no_change() -> None:
    """Readers pass over a log file of the size of an empty one."""
    named = "20250102030405006" + "010"
    empty = LogFileName("files-0000-0", named, 1, "0-0-0")
    least = deletes(pa.array(["k"]), "files")
    for block in (delete_block("20250102030405006", least), rollback_block(named[:-3], undone=named[:-3])):
        file = StoredFile(str(empty), len(block))
        assert GroupSlice("files-0000-0", None, "", (file,), (empty,)).changed_logs == (file,)
        assert len(block) > len(delete_block(named, NO_DELETES))


def _last_instant(path: Path) -> str:
    *_, last = blocks_of(path.read_bytes())
    return last.header(Header.INSTANT)


def _holds(reader: MetadataTableReader, key: str, file_id: str) -> bool:

    groups = reader.groups("record_index")
    return groups[int(groups_of(pa.array([key]), len(groups))[0])].file_id == file_id
