"""Folders of tests in memory: tables are written there with less work of the system, and nothing waits for a disk.

Suites whose tests write many small tables import both fixtures in their ``conftest.py``. What a suite promises must not
depend on the file system: ``rli doctor`` warns of an index in memory, so its tests stay on a disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from shutil import disk_usage, rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final

import pytest

_MEMORY: Final = Path("/dev/shm")  # noqa: S108  (a folder of its own is made there)
_LEAST_FREE_BYTES: Final = 4 << 30


class MemoryFolders:
    """Makes folders as ``pytest.TempPathFactory`` does, below another one."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def mktemp(self, basename: str) -> Path:
        """A new, empty folder."""
        return Path(mkdtemp(prefix=f"{basename}-", dir=self._root))


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.TempPathFactory | MemoryFolders]:
    """Folders in memory, or those of ``--basetemp``, which are kept; on a disk where memory is scarce."""
    is_chosen = f"pytest-of-{getuser()}" not in tmp_path_factory.getbasetemp().parts
    if is_chosen or not _MEMORY.is_dir() or disk_usage(_MEMORY).free < _LEAST_FREE_BYTES:
        yield tmp_path_factory
        return
    with TemporaryDirectory(prefix="rli-tests-", dir=_MEMORY, ignore_cleanup_errors=True) as root:
        yield MemoryFolders(Path(root))


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory | MemoryFolders
) -> Iterator[Path]:
    """A folder of a test."""
    folder = tmp_path_factory.mktemp(re.sub(r"\W", "_", request.node.name)[:30])
    yield folder
    if isinstance(tmp_path_factory, MemoryFolders):
        rmtree(folder, ignore_errors=True)
