"""A table that every crash test takes a copy of, and the servers that its index may be on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rli import LeasePlace, TableType, create_table, open_table
from tests.crash.writes import FIRST, SECOND, index_url, open_copy, other_index_url, place_index
from tests.support.docker import Service
from tests.support.folders import tmp_path, tmp_path_factory
from tests.support.hbase import hbase_url, new_table
from tests.support.redis import redis_url
from tests.support.tables import records, turn_into_version_9

__all__ = ["tmp_path", "tmp_path_factory"]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of two commits and its index, whose URL is to be given at opening."""
    return write_template(tmp_path_factory.mktemp("template"), version=6)


@pytest.fixture(scope="session")
def template_9(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a table of version 9."""
    return write_template(tmp_path_factory.mktemp("template"), version=9)


@pytest.fixture(scope="session")
def template_leased(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the lease in the table, and a second index of it."""
    folder = write_template(tmp_path_factory.mktemp("template"), version=6, lease=LeasePlace.TABLE)
    with open_table(folder / "table", index=other_index_url(folder)) as other:
        other.bootstrap_index(shards=3)
    return folder


@pytest.fixture(scope="session")
def template_with_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A merge-on-read table of version 9, whose second commit has made a log file."""
    folder = tmp_path_factory.mktemp("template")
    return write_template(folder, version=9, table_type=TableType.MERGE_ON_READ, small_file_size=0)


@pytest.fixture(scope="session", params=[6, 9])
def scattered_template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in both versions, with a file group of its own for what each commit brings to a partition."""
    return write_template(tmp_path_factory.mktemp("template"), version=request.param, small_file_size=0)


def write_template(folder: Path, version: int, lease: LeasePlace = LeasePlace.INDEX, **settings: Any) -> Path:
    """A folder with a table of two commits and its index."""
    table = create_table(
        folder / "table",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index_url(folder),
        shards=3,
        lease=lease,
        **settings,
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


@pytest.fixture
def logged_copies(template_with_logs: Path, tmp_path: Path) -> Copies:
    """Makes copies of the template with log files."""
    return Copies(template_with_logs, tmp_path)


@pytest.fixture
def leased_copies(template_leased: Path, tmp_path: Path) -> Copies:
    """Makes copies of the template with two indexes."""
    return Copies(template_leased, tmp_path)


@pytest.fixture
def scattered_copies(scattered_template: Path, tmp_path: Path) -> Copies:
    """Makes copies of the template whose file groups are to be clustered."""
    return Copies(scattered_template, tmp_path)


class Copies:
    """Copies of the template, each in a folder of its own."""

    def __init__(self, template: Path, target: Path) -> None:
        self._template = template
        self._target = target
        self._count = 0

    def make(self, url: str | None = None) -> Path:
        """A new copy; its index is rebuilt at ``url``, or comes with it."""
        self._count += 1
        folder = Path(shutil.copytree(self._template, self._target / str(self._count)))
        if url is not None:
            place_index(folder, url)
            table = open_copy(folder)
            table.bootstrap_index(shards=3)
            table.close()
        return folder


@pytest.fixture(
    params=[pytest.param("redis", marks=pytest.mark.docker), pytest.param("hbase", marks=pytest.mark.docker)]
)
def server_url(request: pytest.FixtureRequest) -> str:
    """The URL of an index that nobody else uses, on a server that many machines could share."""
    service: Service = request.getfixturevalue("redis_server" if request.param == "redis" else "hbase")
    return redis_url(service) if request.param == "redis" else hbase_url(service, new_table())
