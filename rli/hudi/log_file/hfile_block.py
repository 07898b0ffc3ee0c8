"""Blocks with records of the metadata table: a whole HFile each."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pyarrow as pa

from rli.hudi.hfile.blocks import Codec
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.writer import write_hfile
from rli.hudi.log_file.encoding import encode_block
from rli.hudi.log_file.form import BlockKind, Header
from rli.hudi.log_file.reader import LogBlock


def hfile_block(
    instant: str, cells: Iterable[pa.RecordBatch], schema: str, *, compression: Codec = Codec.GZIP
) -> bytes:
    """A block with cells.

    >>> from rli.hudi.hfile.cells import CELLS
    >>> block = hfile_block("20250102030405006", [pa.record_batch([[b"k"], [b"v"]], schema=CELLS)], '"string"')
    >>> block[:6]
    b'#HUDI#'

    Args:
        instant: of the commit.
        cells: batches of ``CELLS``, sorted.
        schema: Avro schema of the values.
        compression: gzip or none.

    Raises:
        InvalidInputError: keys are out of order or too long.
    """
    content = io.BytesIO()
    write_hfile(content, cells, schema, compression=compression)
    return encode_block(BlockKind.HFILE, {Header.INSTANT: instant, Header.SCHEMA: schema}, content.getvalue())


def hfile_of(block: LogBlock) -> HFileReader:
    """The HFile of a block, whose own blocks are read as they are asked for.

    Raises:
        CorruptTableError: the content is no HFile.
        UnsupportedTableError: it has a compression that rli does not read.
    """
    return HFileReader(block.open(), block.size)
