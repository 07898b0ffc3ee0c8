"""A table that every crash test takes a copy of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rli import create_table
from tests.crash.writes import FIRST, SECOND, index_url
from tests.support.tables import records, turn_into_version_9


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of two commits and its index, whose URL is to be given at opening."""
    return _write_template(tmp_path_factory.mktemp("template"), version=6)


@pytest.fixture(scope="session")
def template_9(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a table of version 9."""
    return _write_template(tmp_path_factory.mktemp("template"), version=9)


def _write_template(folder: Path, version: int) -> Path:
    table = create_table(
        folder / "table", record_key="id", partition_by="city", ordering="ts", index=index_url(folder), shards=3
    )
    if version == 9:
        turn_into_version_9(table)
    table.upsert(records(*FIRST))
    table.upsert(records(*SECOND))
    table.close()
    return folder


@pytest.fixture
def copies(template: Path, tmp_path: Path) -> Copies:
    """Makes copies of the template."""
    return Copies(template, tmp_path)


@pytest.fixture
def copies_9(template_9: Path, tmp_path: Path) -> Copies:
    """Makes copies of the template of version 9."""
    return Copies(template_9, tmp_path)


class Copies:
    """Copies of the template, each in a folder of its own."""

    def __init__(self, template: Path, target: Path) -> None:
        self._template = template
        self._target = target
        self._count = 0

    def make(self) -> Path:
        self._count += 1
        return Path(shutil.copytree(self._template, self._target / str(self._count)))
