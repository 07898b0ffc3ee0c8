"""Blocks of HFiles: a head of 33 bytes, the content, perhaps compressed, and room for checksums.

The head, big-endian: magic of 8 bytes, int32 bytes after the head, int32 bytes of the uncompressed content, int64 place
of the block before of this kind (-1 if none), int8 kind of checksum (0: none), int32 bytes of a chunk with a checksum,
int32 bytes of head and compressed content. After the content stand four bytes for each chunk that was begun.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from importlib import import_module
from importlib.util import find_spec
from typing import BinaryIO, Final

from rli.errors import UnsupportedTableError
from rli.hudi.hfile.encoding import damaged

DATA: Final = b"DATABLK*"
ROOT_INDEX: Final = b"IDXROOT2"
LEAF_INDEX: Final = b"IDXLEAF2"
INTERMEDIATE_INDEX: Final = b"IDXINTE2"
INFO: Final = b"FILEINF2"

_HEAD: Final = struct.Struct(">8siiqbii")
_NO_CHECKSUM: Final = 0
_CHUNK_BYTES: Final = 16384
_CHECKSUM_BYTES: Final = 4
_GZIP: Final = 31
"""Window of zlib that stands for gzip's form."""

_LEVEL: Final = 2
"""Of gzip: zlib is twice as fast as with its default, for blocks a fifth larger."""

_DEFLATE: Final = import_module("isal.isal_zlib" if find_spec("isal") else "zlib")
"""What packs and unpacks gzip: for such blocks, ISA-L takes a third of zlib's time to pack them, an eighth smaller, and half of it to
unpack them."""

_MOST_INFLATED: Final = 1100
"""Deflate makes no more than 1,032 bytes of one."""


class Codec(IntEnum):
    """Compression of the blocks, by its number in the trailer."""

    LZO = 0
    GZIP = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4
    BZIP2 = 5
    ZSTD = 6


def known_codec(number: int) -> Codec:
    """The codec of a file.

    Args:
        number: from the trailer.

    Raises:
        CorruptTableError: no codec has it.
        UnsupportedTableError: it is neither gzip nor none.
    """
    if number not in list(Codec):
        raise damaged(f"no codec has the number of the trailer: codec={number}")
    codec = Codec(number)
    if codec not in _UNPACK:
        raise UnsupportedTableError(
            f"an HFile has blocks of a compression that rli does not read: compression={codec.name.lower()}",
            remedy="set hoodie.hfile.compression.algorithm=gz in Hudi's writers and let them build the metadata table anew",
        )
    return codec


class BlockSource:
    """The blocks of a file, read one at a time.

    Args:
        source: the file, seekable.
        end: where its blocks end.
        codec: compression of their contents.
        held: a part of the file that was read already.
        held_from: where it begins.
    """

    def __init__(self, source: BinaryIO, end: int, codec: Codec, held: bytes, held_from: int) -> None:
        self._source = source
        self._end = end
        self._codec = codec
        self._held = held
        self._held_from = held_from

    def hold(self, place: int, size: int) -> None:
        """Read a part of the file by one request; blocks are taken from the last one as far as they lie in it."""
        if 0 <= place < self._end:
            self._held = read_exactly(self._source, place, min(size, self._end - place))
            self._held_from = place

    def read(self, place: int, *magics: bytes) -> bytes:
        """The uncompressed content of a block.

        Args:
            place: of its head.
            magics: that it may have.

        Raises:
            CorruptTableError: there is no such block, or it is damaged.
        """
        if not 0 <= place <= self._end - _HEAD.size:
            raise damaged(f"a block lies outside of the file: place={place} end={self._end}")
        magic, after, size, _, _, chunk, packed_end = _HEAD.unpack(self._bytes(place, _HEAD.size))
        if magic not in magics:
            raise damaged(f"a block has another kind than expected: place={place} kind={magic!r}")
        packed = packed_end - _HEAD.size if chunk else after
        if not 0 <= packed <= after <= self._end - place - _HEAD.size or size < 0:
            raise damaged(f"a block has impossible sizes: place={place} size={after} uncompressed={size}")
        content = _UNPACK[self._codec](self._bytes(place + _HEAD.size, packed), size)
        if content is None or len(content) != size:
            raise damaged(f"the content of a block is not what its head says: place={place} uncompressed={size}")
        return content

    def _bytes(self, place: int, length: int) -> bytes:
        start = place - self._held_from
        if 0 <= start <= len(self._held) - length:
            return self._held[start : start + length]
        return read_exactly(self._source, place, length)


def read_exactly(source: BinaryIO, place: int, length: int) -> bytes:
    """Bytes of a file.

    Raises:
        CorruptTableError: the file has fewer.
    """
    source.seek(place)
    content = source.read(length)
    if len(content) != length:
        raise damaged(f"the file ends too early: place={place} wanted={length} found={len(content)}")
    return content


def as_block(magic: bytes, content: bytes | memoryview, codec: Codec, before: int = -1) -> bytes:
    """A block with its head, without checksums.

    Args:
        magic: its kind.
        content: uncompressed.
        codec: gzip or none.
        before: place of the block before of this kind.
    """
    packed = content
    if codec is Codec.GZIP:
        packer = _DEFLATE.compressobj(_LEVEL, wbits=_GZIP)
        packed = packer.compress(content) + packer.flush()
    end = _HEAD.size + len(packed)
    checksums = bytes(-(-end // _CHUNK_BYTES) * _CHECKSUM_BYTES)
    sizes = (len(packed) + len(checksums), len(content))
    head = _HEAD.pack(magic, *sizes, before, _NO_CHECKSUM, _CHUNK_BYTES, end)
    return b"".join((head, packed, checksums))


def _inflated(packed: bytes, size: int) -> bytes | None:
    if size > len(packed) * _MOST_INFLATED:
        return None
    unpacker = _DEFLATE.decompressobj(_GZIP)
    try:
        content: bytes = unpacker.decompress(packed, size + 1)
    except _DEFLATE.error:
        return None
    return content if unpacker.eof else None


def _as_is(packed: bytes, _size: int) -> bytes:
    return packed


_UNPACK: Final[dict[Codec, Callable[[bytes, int], bytes | None]]] = {Codec.GZIP: _inflated, Codec.NONE: _as_is}
