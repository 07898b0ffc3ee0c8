"""An S3 server of this machine, in a process of its own, that heeds the conditions of conditional writes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pytest
from obstore.store import S3Store

from rli import Table, create_table
from tests.support.docker import free_ports
from tests.support.waiting import eventually

_LOGGED = re.compile(r'"(\S+ \S+) HTTP/1.1"')
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running S3 server.

    Attributes:
        port: of this host.
        log: of the server.
        options: what a table needs to be opened there, as ``storage_options``.
    """

    port: int
    log: Path
    options: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        options = {
            "endpoint": self.url,
            "access_key_id": "anybody",
            "secret_access_key": "anything",
            "region": "us-east-1",
            "allow_http": "true",
        }
        object.__setattr__(self, "options", options)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_up(self) -> bool:
        try:
            self._ask("GET", "/")
        except OSError:
            return False
        return True

    def requests(self) -> list[str]:
        """Each request so far: its method and its target."""
        return _LOGGED.findall(self.log.read_text())

    def new_bucket(self) -> str:
        """The name of an empty bucket that nobody else uses."""
        name = f"b{uuid4().hex}"
        self._ask("PUT", f"/{name}")
        return name

    def client(self, bucket: str) -> S3Store:
        """A client of a bucket, for tests that look at objects themselves."""
        config: Any = {name: value for name, value in self.options.items() if name != "allow_http"}
        return S3Store(bucket, **config, client_options={"allow_http": True})

    def copy_of(self, bucket: str) -> str:
        """A new bucket with the same objects."""
        copy = self.new_bucket()
        source, target = self.client(bucket), self.client(copy)
        for found in obstore.list(source).collect():
            obstore.put(target, found["path"], obstore.get(source, found["path"]).bytes())
        return copy

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Write an object whose key no client of ours would take."""
        self._ask("PUT", f"/{bucket}/{key}", content)

    def _ask(self, method: str, path: str, content: bytes = b"") -> None:
        with closing(HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request(method, path, content)
            assert connection.getresponse().status == HTTPStatus.OK, f"{method} {path}"


@contextmanager
def running_object_store(folder: Path) -> Iterator[ObjectStore]:
    """A server whose log goes to a folder; it keeps its objects in memory."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "tests.support.object_server", str(port)]
    with (folder / "s3.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT) as process:
        try:
            server = ObjectStore(port, folder / "s3.log")
            eventually(lambda: process.poll() is not None or server.is_up(), "the S3 server is up")
            if process.poll() is not None:
                pytest.fail(f"the S3 server ended: {(folder / 's3.log').read_text()}")
            yield server
        finally:
            process.kill()


def locked_table(store: ObjectStore, **given: Any) -> Table:
    """A table in a bucket of its own, with the lock in the storage that writers of Hudi share."""
    return create_table(
        f"s3://{store.new_bucket()}/t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index="global-simple:",
        lock="storage",
        storage_options=store.options,
        **given,
    )
