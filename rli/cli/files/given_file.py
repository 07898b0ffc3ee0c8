"""A file that a user names on the command line, or standard input."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from rli.errors import InvalidInputError

STANDARD_INPUT: Final = "-"
"""Names standard input among files."""

_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file to read, as often as needed.

    Attributes:
        path: as the user gave it; messages name it.
        content: all bytes of standard input, decompressed; None for a file of a folder.
    """

    path: str
    content: bytes | None = None

    @classmethod
    def at(cls, path: str) -> Self:
        """The file at a path, or standard input, which is read to its end.

        Raises:
            InvalidInputError: there is no such file, or standard input is closed or a damaged gzip stream.
        """
        if path == STANDARD_INPUT:
            return cls(path, _standard_input())
        if not os.path.isfile(path):
            kind = "this is a folder" if os.path.isdir(path) else "there is no such file"
            raise InvalidInputError(f"{kind}: file={path}", remedy="name a file that exists")
        return cls(path)

    @property
    def ending(self) -> str:
        """The ending of the name without ``.gz``, in small letters; "" for standard input."""
        return os.path.splitext(self.path.removesuffix(".gz"))[1].lower()

    def open(self) -> pa.NativeFile:
        """The content from its beginning, decompressed if the name ends in ``.gz``."""
        if self.content is None:
            return pa.input_stream(self.path, compression="detect")
        return pa.BufferReader(self.content)

    def place(self, line: int | None) -> str:
        """A line of the file, for messages: ``file=day1.csv:3``; the file alone if the line is None."""
        return f"file={self.path}" if line is None else f"file={self.path}:{line}"

    def require_readable(self) -> None:
        """Raise ``InvalidInputError`` for a file whose bytes the operating system does not give, whatever its format."""
        if self.content is not None:
            return
        try:
            with open(self.path, "rb") as file:
                file.read(1)
        except OSError as error:
            raise InvalidInputError(
                f"the file cannot be read: file={self.path} ({error.strerror})",
                remedy="check its permissions and the disk",
            ) from error


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise InvalidInputError(
            f"standard input is closed: file={STANDARD_INPUT}", remedy="name a file, or pipe records in"
        )
    content = sys.stdin.buffer.read()
    if not content.startswith(_GZIP):
        return content
    try:
        with pa.input_stream(pa.py_buffer(content), compression="gzip") as stream:
            return bytes(stream.read())
    except OSError as error:
        raise InvalidInputError(
            f"standard input is no whole gzip stream: file={STANDARD_INPUT} ({error})", remedy="send it again"
        ) from error
