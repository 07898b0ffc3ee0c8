"""Blocks with records of the metadata table: a whole HFile each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rli.hudi.hfile.blocks import Codec
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.writer import small_hfiles
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.reader import LogBlock


def hfile_blocks(
    instant: str, cells: pa.RecordBatch, ends: Sequence[int], schema: str, *, compression: Codec = Codec.GZIP
) -> Iterator[bytes]:
    """Blocks with cells that follow each other.

    >>> from rli.hudi.hfile.cells import CELLS
    >>> cells = pa.record_batch([[b"k"], [b"v"]], schema=CELLS)
    >>> [block[:6] for block in hfile_blocks("20250102030405006", cells, [1], '"string"')]
    [b'#HUDI#']

    Args:
        instant: of the commit.
        cells: of ``CELLS``; those of each block sorted.
        ends: of each block, the row behind its last one; each block has a row at least.
        schema: Avro schema of the values.
        compression: gzip or none.

    Raises:
        InvalidInputError: keys are out of order or too long; before the first block.
    """
    headers = {Header.INSTANT: instant, Header.SCHEMA: schema}
    for content in small_hfiles(cells, ends, schema, compression=compression):
        yield encode_block(BlockKind.HFILE, headers, content)


def hfile_of(block: LogBlock) -> HFileReader:
    """The HFile of a block, whose own blocks are read as they are asked for.

    Raises:
        CorruptTableError: the content is no HFile.
        UnsupportedTableError: it has a compression that rli does not read.
    """
    return HFileReader(block.open(), block.size)
