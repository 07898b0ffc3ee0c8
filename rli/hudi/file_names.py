"""Names of base files: ``<file id>_<write token>_<instant>.parquet``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self
from uuid import uuid4

from rli.errors import CorruptTableError

EXTENSION: Final = ".parquet"

_NAME: Final = re.compile(r"(?P<file_id>[^_/]+)_(?P<write_token>[^_/]+)_(?P<instant>\d+)\.parquet", re.ASCII)


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """The parts of a base file's name.

    Attributes:
        file_id: the file group; holds no ``_``.
        write_token: tells attempts to write the same file apart, ``<task>-<stage>-<attempt>`` in Hudi.
        instant: time of the instant that wrote it.
    """

    file_id: str
    write_token: str
    instant: str

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}{EXTENSION}"

    @classmethod
    def parse(cls, file_name: str) -> Self:
        """The parts of a file's name (without folders).

        Raises:
            CorruptTableError: it is no name of a Parquet base file.
        """
        match = _NAME.fullmatch(file_name)
        if match is None:
            raise CorruptTableError(
                f"a file of the table does not have the name of a base file: file={file_name} expected=<file "
                "id>_<write token>_<instant>.parquet",
                remedy="move the file out of the table's folder",
            )
        return cls(*match.groups())


def new_file_id() -> str:
    """An id for a new file group, as Hudi makes them: a random UUID and ``-0``."""
    return f"{uuid4()}-0"
