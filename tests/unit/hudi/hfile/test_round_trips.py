"""What is written as an HFile is read back, by all and by single keys; damage is told."""

from __future__ import annotations

import io
import random
import re
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli import CorruptTableError, InvalidInputError, UnsupportedTableError
from rli.hudi.hfile.blocks import DATA, Codec
from rli.hudi.hfile.cells import CELLS
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.trailer import TRAILER_BYTES, Trailer
from rli.hudi.hfile.writer import small_hfiles, write_hfile
from tests.support.damage import FUZZ_ROUNDS, damaged

Cell = tuple[bytes, bytes]

LIKE_FRAMING: Final = b"\0\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""What stands between row and value: content may hold it too."""

TEXTS: Final = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", LIKE_FRAMING, b"\0\0\0\x0c\0\0\0\0\0\0" + LIKE_FRAMING + b"\0", b"\x7f" * 30, b"v" * 700]),
)
CELL_LISTS: Final = st.lists(st.tuples(TEXTS, TEXTS), max_size=60).map(
    lambda cells: sorted(cells, key=lambda cell: cell[0])
)
CODECS: Final = st.sampled_from([Codec.GZIP, Codec.NONE])


def _batch(cells: list[Cell]) -> pa.RecordBatch:
    return pa.record_batch([[key for key, _ in cells], [value for _, value in cells]], schema=CELLS)


def _file(*batches: list[Cell], codec: Codec = Codec.GZIP, block_bytes: int = 1 << 20) -> io.BytesIO:
    file = io.BytesIO()
    write_hfile(file, map(_batch, batches), '"string"', compression=codec, block_bytes=block_bytes)
    return file


@pytest.mark.parametrize("counted", [0, 1])
def test_index_without_last_blocks_is_refused(counted: int) -> None:
    """The trailer has no checksum. Without its last blocks, a look-up would say that their keys are not there."""
    file = _file([(bytes([65 + number]), b"v" * 60) for number in range(4)], block_bytes=100)
    content = file.getvalue()
    told = Trailer.parse(content[-TRAILER_BYTES:])
    assert told.index_entries > 1
    forged = content[:-TRAILER_BYTES] + replace(told, index_entries=counted).encode()
    with pytest.raises(CorruptTableError, match="index"):
        _reader(io.BytesIO(forged))


def _reader(file: io.BytesIO) -> HFileReader:
    return HFileReader(file, len(file.getvalue()))


def _cells(batch: pa.RecordBatch) -> list[Cell]:
    return [(cell["key"], cell["value"]) for cell in batch.to_pylist()]


def _numbered(count: int) -> list[Cell]:
    return [(b"key-%06d" % number, b"value-%04d" % (number % 10_000)) for number in range(count)]


@given(CELL_LISTS, CODECS, st.integers(1, 2000), st.integers(0, 60))
def test_all_cells_come_back(cells: list[Cell], codec: Codec, block_bytes: int, cut: int) -> None:
    reader = _reader(_file(cells[:cut], cells[cut:], codec=codec, block_bytes=block_bytes))
    blocks = [_cells(block) for block in reader.cells()]
    assert [cell for block in blocks for cell in block] == cells
    assert reader.entries == len(cells)
    assert reader.info["schema"] == b'"string"'
    # Readers look for a key in one block only.
    assert all(before[-1][0] < after[0][0] for before, after in pairwise(blocks))


@given(CELL_LISTS, st.lists(TEXTS, max_size=20), CODECS, st.integers(1, 2000))
def test_lookup_finds_what_exists(cells: list[Cell], others: list[bytes], codec: Codec, block_bytes: int) -> None:
    wanted = sorted({*others, *(key for key, _ in cells[::3])})
    found = _reader(_file(cells, codec=codec, block_bytes=block_bytes)).lookup(pa.array(wanted, pa.binary()))
    assert _cells(found) == [cell for cell in cells if cell[0] in wanted]


class _Counted(io.BytesIO):
    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.read_bytes += len(content)
        return content


def test_files_without_cells_name_none() -> None:
    """The reader of Hudi 0.15 opens no file whose last key has no length."""
    file = _file()
    reader = _reader(file)
    assert "hfile.LASTKEY" not in reader.info
    assert reader.lookup(pa.array([b"a"], pa.binary())).num_rows == 0
    assert _read_all(file.getvalue()) == []


def test_alike_files_keep_their_cells() -> None:
    """A process keeps the root indexes of files: files of one size tell their own cells, in whatever order they are read."""
    files = [[(b"%s-%04d" % (name, number), b"%d" % number) for number in range(2_000)] for name in (b"a", b"b")]
    readers = [_reader(_file(cells, block_bytes=1_024)) for cells in [*files, *files]]
    for reader, cells in zip(readers, [*files, *files], strict=True):
        assert _cells(reader.lookup(pa.array([cells[7][0], cells[-1][0], b"z"], pa.binary()))) == [cells[7], cells[-1]]
        assert [cell for batch in reader.cells() for cell in _cells(batch)] == cells


def test_lookup_reads_only_its_blocks() -> None:
    content = _file(_numbered(20_000), codec=Codec.NONE, block_bytes=4096).getvalue()
    file = _Counted(content)
    reader = HFileReader(file, len(content))
    opened = file.read_bytes
    keys = pa.array([b"key-000007", b"key-000009", b"key-010000", b"key-010000x", b"zzz"])
    assert reader.lookup(keys).num_rows == 3
    # Three blocks: the last key lies behind the last cell, which only the last block can tell.
    assert file.read_bytes - opened < 3 * (4096 + 100)
    assert opened < len(content) // 10


def test_blocks_keep_to_their_size() -> None:
    content = _file(_numbered(50_000), codec=Codec.NONE, block_bytes=10_000).getvalue()
    starts = [block.start() for block in re.finditer(re.escape(DATA), content)]
    # Cells of 41 bytes, and 37 bytes around a block.
    assert {after - before for before, after in pairwise(starts)} == {10_000 // 41 * 41 + 37}
    assert len(starts) == -(-50_000 // (10_000 // 41))


def test_small_blocks_are_scanned_together() -> None:
    batches = list(_reader(_file(_numbered(5_000), block_bytes=10_000)).cells())
    assert [batch.num_rows for batch in batches] == [5_000]


def test_files_may_stand_in_others() -> None:
    file = io.BytesIO(b"before")
    file.seek(6)
    write_hfile(file, [_batch(_numbered(3))], None)
    content = file.getvalue()[6:]
    (block,) = HFileReader(io.BytesIO(content), len(content)).cells()
    assert _cells(block) == _numbered(3)


@pytest.mark.parametrize("batches", [([(b"b", b""), (b"a", b"")],), ([(b"b", b"")], [(b"a", b"")])])
def test_unsorted_keys_are_refused(batches: tuple[list[Cell], ...]) -> None:
    with pytest.raises(InvalidInputError, match="out of order"):
        _file(*batches)
    with pytest.raises(InvalidInputError, match="out of order"):
        _reader(_file([])).lookup(pa.array([b"b", b"a"]))


def test_too_long_keys_are_refused() -> None:
    longest = [(b"k" * 32_767, b"v")]
    (block,) = _reader(_file(longest)).cells()
    assert _cells(block) == longest
    with pytest.raises(InvalidInputError, match="too long"):
        _file([(b"k" * 32_768, b"v")])


def test_null_cells_are_refused() -> None:
    for key, value in ((None, b"v"), (b"k", None)):
        batch = pa.record_batch([pa.array([key], pa.binary()), pa.array([value], pa.binary())], schema=CELLS)
        with pytest.raises(InvalidInputError, match="is null"):
            write_hfile(io.BytesIO(), [batch], None)


def _read_all(content: bytes) -> list[Cell]:
    reader = HFileReader(io.BytesIO(content), len(content))
    reader.lookup(pa.array([b"a", b"key-000011", b"key-000155", b"z"]))
    return [cell for block in reader.cells() for cell in _cells(block)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.NONE])
def test_damage_ends_in_clear_errors(codec: Codec) -> None:
    rng = random.Random()
    content = _file(_numbered(200), codec=codec, block_bytes=2000).getvalue()
    for _ in range(FUZZ_ROUNDS):
        try:
            _read_all(damaged(content, rng))
        except (CorruptTableError, UnsupportedTableError) as error:
            assert error.remedy  # noqa: PT017


def test_every_cut_is_told() -> None:
    content = _file(_numbered(100), block_bytes=1000).getvalue()
    for length in range(0, len(content), 61):
        with pytest.raises(CorruptTableError):
            _read_all(content[:length])


def test_damage_in_gzip_is_told() -> None:
    # Behind the heads of the first block and of gzip.
    content = _file(_numbered(100), block_bytes=1000).getvalue()
    for place in range(43, 150, 5):
        with pytest.raises(CorruptTableError):
            _read_all(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def test_hostile_sizes_are_not_allocated() -> None:
    content = bytearray(_file(_numbered(100)).getvalue())
    content[12:16] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptTableError, match="not what its head says"):
        _read_all(bytes(content))


@given(st.lists(CELL_LISTS.filter(bool), min_size=1, max_size=5), st.integers(1, 2000))
def test_small_files_equal_single_ones(files: list[list[Cell]], block_bytes: int) -> None:
    """Files that are made together hold what each would hold by itself, also those too large for one block."""
    ends = [*accumulate(map(len, files))]
    together = _batch([cell for cells in files for cell in cells])
    made = small_hfiles(together, ends, '"string"', block_bytes=block_bytes)
    for content, cells in zip(made, files, strict=True):
        alone, found = (_reader(file) for file in (_file(cells, block_bytes=block_bytes), io.BytesIO(content)))
        assert [*map(_cells, found.cells())] == [*map(_cells, alone.cells())]
        assert {**found.info, "hfile.CREATE_TIME_TS": b""} == {**alone.info, "hfile.CREATE_TIME_TS": b""}


def test_small_files_refuse_unsorted_keys() -> None:
    cells = _batch([(b"b", b""), (b"a", b""), (b"c", b"")])
    assert len([*small_hfiles(cells, [1, 3], None)]) == 2
    with pytest.raises(InvalidInputError, match="row=1"):
        next(small_hfiles(cells, [2, 3], None))
