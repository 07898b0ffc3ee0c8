"""Names of data files: base files, log files, and the files of a table's folders that rli refuses by their names."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from secrets import randbelow
from typing import Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError, UnsupportedTableError

EXTENSION: Final = ".parquet"
"""Ends the names of a table's base files."""

HFILE: Final = ".hfile"
"""Ends the names of the base files of Hudi's metadata table."""

_BASE: Final = re.compile(r"([^_/.][^_/]*)_([^_/]+)_(\d+)(\.parquet|\.hfile)", re.ASCII)
_BASE_BY_COLUMNS: Final = r"\A(?P<file_id>[^_/.][^_/]*)_[^_/]+_(?P<instant>[0-9]+)\.parquet\z"
_LOG: Final = re.compile(r"\.([^_/]+)_(\d+)\.log\.(\d+)_([^_/.]+)(\.cdc)?", re.ASCII)
# Hudi's request for comments and its code differ: ``.delete.`` and ``.deletes.``.
_NATIVE_LOG: Final = re.compile(r"[^_/]+_[^_/]+_\d+_\d+\.(log|deletes?|cdc)\.\w+", re.ASCII)
_OTHER_FORMATS: Final = (".lance", ".orc", HFILE)
_CHECKSUM: Final = ".crc"
_DATE_DIGITS: Final = 8
_TOKENS: Final = 2**31


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """The parts of a base file's name, ``<file id>_<write token>_<instant>.parquet``.

    Attributes:
        file_id: the file group; holds no ``_``.
        write_token: tells attempts to write the same file apart, ``<task>-<stage>-<attempt>`` in Hudi.
        instant: time of the instant that wrote it.
        extension: ``EXTENSION``, or ``HFILE`` in Hudi's metadata table.
    """

    file_id: str
    write_token: str
    instant: str
    extension: str = EXTENSION

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}{self.extension}"

    @classmethod
    def parse(cls, file_name: str, extension: str = EXTENSION) -> Self:
        """The parts of a file's name (without folders).

        Raises:
            CorruptTableError: it is no name of a base file with this extension.
        """
        match = _BASE.fullmatch(file_name)
        if match is None or match[4] != extension:
            raise _no_base_file(file_name, extension)
        return cls(*match.groups())


@dataclass(frozen=True, slots=True, order=True)
class LogFileName:
    """The parts of a log file's name, ``.<file id>_<instant>.log.<version>_<write token>``.

    Names of one file group compare in the order in which their records apply.

    Attributes:
        file_id: the file group; holds no ``_``.
        instant: in tables of version 6 the instant of the slice's base file, or of the first log file in a file group
            without one; later, the instant of the deltacommit that wrote the file.
        version: from 1; the next number for each log file with the same instant.
        write_token: tells attempts to write the same file apart.
        is_cdc: whether it holds Hudi's change data capture, and no records of the table.
    """

    file_id: str
    instant: str
    version: int
    write_token: str
    is_cdc: bool = False

    def __str__(self) -> str:
        cdc = ".cdc" if self.is_cdc else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}_{self.write_token}{cdc}"

    @classmethod
    def parse(cls, file_name: str) -> Self:
        """The parts of a file's name (without folders).

        Raises:
            CorruptTableError: it is no name of a log file.
        """
        match = _LOG.fullmatch(file_name)
        if match is None:
            raise CorruptTableError(
                f"a file of the table does not have the name of a log file: file={file_name} expected=.<file "
                "id>_<instant>.log.<version>_<write token>",
                remedy="move the file out of the table's folder",
            )
        file_id, instant, version, token, cdc = match.groups()
        return cls(file_id, instant, int(version), token, cdc is not None)


def data_file_name(path: str) -> BaseFileName | LogFileName | None:
    """The parts of the name of a file in a partition's folder; None for a file without records, such as a checksum.

    Args:
        path: of the file, relative to the table.

    Raises:
        CorruptTableError: a Parquet file does not have the name of a base file.
        UnsupportedTableError: the file's name says that it holds records in a form that rli does not read.
    """
    file_name = posixpath.basename(path)
    base = _BASE.fullmatch(file_name)
    if base is not None and base[4] == EXTENSION:
        return BaseFileName(*base.groups())
    if _LOG.fullmatch(file_name):
        return LogFileName.parse(file_name)
    # Many of these end in ".parquet", too: changes and deletes must not be taken for the records of a base file.
    if _NATIVE_LOG.fullmatch(file_name) or (".log." in file_name and not file_name.endswith(_CHECKSUM)):
        raise UnsupportedTableError(
            f"the table holds a log file in a form that versions up to 9 do not have: file={path}",
            remedy="downgrade the table to version 9 with Hudi's command line (downgrade table)",
        )
    if file_name.endswith(_OTHER_FORMATS):
        raise UnsupportedTableError(
            f"the table holds a file that is not a Parquet base file: file={path}",
            remedy="copy the table into one with Parquet base files",
        )
    if file_name.endswith(EXTENSION) and not file_name.startswith("."):
        raise _no_base_file(path, EXTENSION)
    return None


def base_file_names(names: pa.StringArray) -> pa.StructArray:
    """The file ids and instants in names of base files (without folders), with fields ``file_id`` and ``instant``.

    Names that are none of a base file are null: ``data_file_name`` tells what they are.

    Example:
        >>> base_file_names(pa.array(["f1_0-0-0_20240531120000123.parquet", "README"])).to_pylist()
        [{'file_id': 'f1', 'instant': '20240531120000123'}, None]
    """
    return pc.extract_regex(names, _BASE_BY_COLUMNS)


def is_log_file(path: str) -> bool:
    """Whether a file is a log file, by its name.

    Args:
        path: of the file, relative to the table or to anything else.
    """
    return _LOG.fullmatch(posixpath.basename(path)) is not None


def token_begin(instant: str) -> str:
    """What tokens begin with in names of log files by one instant: in table version 6 nothing else in them tells the instant.

    Hudi reads a token as three integers of 32 bits.

    Example:
        >>> token_begin("20240531120000123")
        '20240531-120000123-'
    """
    return f"{instant[:_DATE_DIGITS]}-{instant[_DATE_DIGITS:]}-"


def new_write_token() -> str:
    """A write token of an attempt that no planner numbers: it tells its files from those of other attempts."""
    return f"{randbelow(_TOKENS)}-0-0"


def new_file_id() -> str:
    """An id for a new file group, as Hudi makes them: a random UUID and ``-0``."""
    return f"{uuid4()}-0"


def _no_base_file(file: str, extension: str) -> CorruptTableError:
    return CorruptTableError(
        f"a file of the table does not have the name of a base file: file={file} expected=<file id>_<write "
        f"token>_<instant>{extension}",
        remedy="move the file out of the table's folder",
    )
