"""Apache Hudi itself as a reader and writer of our tables: one process for each version."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.orders import OrderedProcess, OrderError
from tests.support.spark import REPOSITORY

HUDI_VERSIONS: Final = ("1.2.0", "1.0.2", "0.15.0")

LAST_WITH_HBASE: Final = "1.0.2"
"""The newest of them that has an index in HBase."""

_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})

# No server inside the writer, and few tasks: tables of tests are small.
_WRITE_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "hoodie.embed.timeline.server": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.delete.shuffle.parallelism": "2",
        "hoodie.bloom.index.parallelism": "2",
        "hoodie.simple.index.parallelism": "2",
        "hoodie.global.simple.index.parallelism": "2",
    }
)

# Keeps Hudi 1.x from turning a table of version 6 into one of its own newest version.
STAY_ON_VERSION_6: Final[Mapping[str, str]] = MappingProxyType(
    {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
)


class HudiError(Exception):
    """Hudi refused or failed; the text is the one of its exception."""


class HudiEngine:
    """Hudi of one version on a Spark of its own; start it once for many tests, it takes seconds to come up.

    Args:
        version: of Hudi.
        class_path: folders and jars whose files win over those of the same name in Hudi's bundle.
    """

    def __init__(self, version: str, *class_path: Path) -> None:
        self.version = version
        self._exchange = TemporaryDirectory(prefix="hudi-exchange-")
        self._process = OrderedProcess("tests.support.hudi_worker", [version, *map(str, class_path)], REPOSITORY)

    def read(
        self,
        path: str | Path,
        options: Mapping[str, str] = _NO_OPTIONS,
        where: str | None = None,
        *,
        settings: Mapping[str, str] = _NO_OPTIONS,
    ) -> pa.Table:
        """Rows of a query with Hudi's data source, meta columns included.

        Args:
            path: of the table.
            options: of the query.
            where: a condition of Spark SQL.
            settings: of the Spark session, during this query alone: other tests share the session.
        """
        output = Path(self._exchange.name, "output")
        self._order(
            "read", path=str(path), output=str(output), options=dict(options), where=where, settings=dict(settings)
        )
        return pq.read_table(output)

    def write(
        self,
        path: str | Path,
        rows: pa.Table,
        options: Mapping[str, str] = _NO_OPTIONS,
        mode: Literal["append", "overwrite"] = "append",
    ) -> None:
        """Write rows with Hudi; ``options`` win over the ones that make it quick on small tables."""
        source = Path(self._exchange.name, "input.parquet")
        pq.write_table(rows, source)
        self._order("write", path=str(path), source=str(source), options={**_WRITE_OPTIONS, **options}, mode=mode)

    def roll_back(self, path: str | Path, instant: str, options: Mapping[str, str] = _NO_OPTIONS) -> None:
        """Undo a completed commit, with the options of a writer."""
        assert self._order("roll_back", path=str(path), instant=instant, options={**_WRITE_OPTIONS, **options})

    def sql(self, statement: str, settings: Mapping[str, str] = _NO_OPTIONS) -> list[list[str]]:
        """The rows of a Spark SQL statement, each value as a string.

        Args:
            statement: no ``set``, which would change what the tests after this one do.
            settings: of the Spark session, during this statement alone: other tests share the session.
        """
        assert not statement.startswith(("set ", "reset ")), "give the settings beside a statement"
        result: list[list[str]] = self._order("sql", statement=statement, settings=dict(settings))
        return result

    @property
    def process(self) -> int:
        """Number of the process that has started the JVM."""
        return self._process.number

    def pause(self) -> None:
        """Stop the process with its JVM for a while."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a process that was stopped go on."""
        self._process.send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process with its JVM, in the middle of an order, if there is one."""
        self._process.send(signal.SIGKILL)

    def close(self) -> None:
        """End the process."""
        self._process.close()
        self._exchange.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _order(self, operation: str, **arguments: Any) -> Any:
        try:
            return self._process.order(operation, **arguments)
        except OrderError as error:
            raise HudiError(str(error)) from error
