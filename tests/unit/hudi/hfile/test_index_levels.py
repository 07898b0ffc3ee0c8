"""Files of HBase with an index of several levels, and with whole keys in its entries, are read."""

from __future__ import annotations

import io
import struct
from typing import Final

import pyarrow as pa
import pytest

from rli import CorruptTableError
from rli.hudi.hfile import blocks, cell_format
from rli.hudi.hfile.block_index import IndexEntry, as_root, as_row
from rli.hudi.hfile.blocks import DATA, INFO, INTERMEDIATE_INDEX, LEAF_INDEX, ROOT_INDEX, Codec
from rli.hudi.hfile.cell_format import Lengths
from rli.hudi.hfile.cells import CELLS
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.trailer import Trailer

PAIRS: Final = [(b"key-%03d" % number, b"%d" % number) for number in range(64)]
AFTER_ROW: Final = b"\0\x7f" + b"\xff" * 7 + b"\x04"


class _Levels:
    """Writes a file whose every index block has two entries."""

    def __init__(self) -> None:
        self.file = io.BytesIO()

    def write(self, magic: bytes, content: bytes, key: bytes = b"") -> IndexEntry:
        place = self.file.tell()
        return IndexEntry(place, self.file.write(blocks.as_block(magic, content, Codec.NONE)), key)

    def data(self) -> list[IndexEntry]:
        entries = []
        for start in range(0, len(PAIRS), 4):
            pairs = PAIRS[start : start + 4]
            batch = pa.record_batch([[key for key, _ in pairs], [value for _, value in pairs]], schema=CELLS)
            # HBase shortens the key of a block to what tells it from the cell before.
            content = cell_format.as_block(batch, Lengths.of(batch))
            entries.append(self.write(DATA, content, PAIRS[start - 1][0] + b"\0" if start else b"k"))
        return entries

    def above(self, magic: bytes, entries: list[IndexEntry]) -> list[IndexEntry]:
        return [self.write(magic, _lower(entries[at : at + 2]), entries[at].key) for at in range(0, len(entries), 2)]

    def finish(self, root: list[IndexEntry], levels: int) -> bytes:
        # Behind it, HBase has the place of the middle key.
        load_on_open = self.write(ROOT_INDEX, as_root(root) + bytes(16)).place
        info = self.write(INFO, b"PBUF\0").place
        places = {
            "info": info,
            "load_on_open": load_on_open,
            "first_block": 0,
            "last_block": 0,
            "uncompressed_bytes": 0,
        }
        trailer = Trailer(**places, index_entries=len(root), entries=len(PAIRS), levels=levels, codec=Codec.NONE)
        return self.file.getvalue() + trailer.encode()


def _lower(entries: list[IndexEntry]) -> bytes:
    parts = [struct.pack(">qi", entry.place, entry.size) + as_row(entry.key) + AFTER_ROW for entry in entries]
    offsets = [sum(map(len, parts[:number])) for number in range(len(parts) + 1)]
    return struct.pack(f">{len(offsets) + 1}i", len(parts), *offsets) + b"".join(parts)


def _three_levels() -> bytes:
    file = _Levels()
    leaves = file.above(LEAF_INDEX, file.data())
    return file.finish(file.above(INTERMEDIATE_INDEX, leaves), levels=3)


def test_lower_levels_are_followed() -> None:
    content = _three_levels()
    reader = HFileReader(io.BytesIO(content), len(content))
    assert [tuple(cell.values()) for batch in reader.cells() for cell in batch.to_pylist()] == PAIRS
    wanted = [b"", b"key-003", b"key-003\0", b"key-004", b"key-041", b"key-063", b"z"]
    assert reader.lookup(pa.array(wanted))["value"].to_pylist() == [b"3", b"4", b"41", b"63"]


def test_ranges_are_found_in_their_blocks() -> None:
    content = _three_levels()
    reader = HFileReader(io.BytesIO(content), len(content))
    keys = [key for key, _ in PAIRS]
    for ranges in ([(b"key-003", b"key-005")], [(b"a", b"key-000")], [(b"key-010", b"key-011"), (b"key-063", b"z")]):
        found = [key for block in reader.blocks_within(ranges) for key in block["key"].to_pylist()]
        wanted = [key for key in keys if any(least <= key < behind for least, behind in ranges)]
        assert [key for key in found if key in wanted] == wanted
        # A block more for each end, at most.
        assert len(found) <= len(wanted) + 8 * len(ranges)


def test_repeated_blocks_are_refused() -> None:
    file = _Levels()
    data = file.data()
    twice = [*file.above(LEAF_INDEX, data[:2]), *file.above(LEAF_INDEX, data[:2])]
    content = file.finish(twice, levels=2)
    with pytest.raises(CorruptTableError, match="names a block twice"):
        list(HFileReader(io.BytesIO(content), len(content)).cells())
