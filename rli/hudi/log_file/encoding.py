"""The bytes of blocks."""

from __future__ import annotations

from collections.abc import Mapping

from rli.hudi.log_file.form import FORM_VERSION, INT, LONG, MAGIC, TWO_INTS, BlockKind, Header


def encode_block(kind: BlockKind, headers: Mapping[Header, str], content: bytes) -> bytes:
    """A block of a log file; a log file is a row of blocks.

    >>> block = encode_block(BlockKind.COMMAND, {Header.INSTANT: "20250102030405006"}, b"")
    >>> block[:6], len(block)
    (b'#HUDI#', 71)

    Args:
        kind: what the content is.
        headers: ``INSTANT`` always, since readers skip or refuse blocks without; ``SCHEMA`` if the content has records.
        content: of that kind.
    """
    entries = [(name, value.encode()) for name, value in headers.items()]
    body = b"".join([
        TWO_INTS.pack(FORM_VERSION, kind),
        INT.pack(len(entries)),
        *(TWO_INTS.pack(name, len(value)) + value for name, value in entries),
        LONG.pack(len(content)),
        content,
        # A footer without entries.
        INT.pack(0),
    ])  # fmt: skip
    size = len(body) + LONG.size
    return MAGIC + LONG.pack(size) + body + LONG.pack(len(MAGIC) + size)
