"""Log files from bytes, and those of the tables by Apache Hudi in tests/data."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator

from rli.hudi.log_file.reader import LogBlock, LogFileReader
from tests.support.hudi_tables import TABLES, hudi_table_names
from tests.support.metadata_tables import ARCHIVES


def blocks_of(content: bytes) -> list[LogBlock]:
    """The blocks of a log file."""
    return list(LogFileReader(io.BytesIO(content), len(content)).blocks())


def metadata_logs(table: str) -> Iterator[bytes]:
    """Contents of the log files in the metadata table of a table of ``METADATA_TABLES``."""
    with tarfile.open(ARCHIVES / f"{table}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if ".log." in member.name else None
            if file is not None:
                yield file.read()


def data_logs(pattern: str = "*/mor/**/*") -> Iterator[tuple[str, bytes]]:
    """Path and content of the log files in real merge-on-read tables, without those of their metadata tables."""
    for name in hudi_table_names(pattern):
        with zipfile.ZipFile(TABLES / f"{name}.zip") as archive:
            for member in archive.namelist():
                if ".log." in member and not any(part in member for part in ("__MACOSX/", "/.hoodie/", ".crc")):
                    yield f"{name}/{member}", archive.read(member)
