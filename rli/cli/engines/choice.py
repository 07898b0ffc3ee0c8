"""The engines that the command line writes tables with."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated, Protocol, runtime_checkable

import pyarrow as pa
import typer

from rli.cli.engines.options import DropOptions, Verb, WriteOptions
from rli.commit.step_clock import OnStep
from rli.errors import InvalidInputError, SettingsError
from rli.model import CommitResult
from rli.table.table import Table


class EngineName(StrEnum):
    """The engines to choose from."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[EngineName, typer.Option(help="local: in this process. spark: in a Spark session.")]


class Engine(Protocol):
    """Writes tables; the methods of ``Table`` say what is promised."""

    def write(self, table: Table, records: pa.Table, options: WriteOptions, on_step: OnStep) -> CommitResult:
        """Write records by the verb of the options."""
        ...

    def delete(self, table: Table, record_keys: Sequence[str], on_step: OnStep) -> CommitResult:
        """Remove records by key."""
        ...

    def drop(self, table: Table, partitions: Sequence[str], options: DropOptions, on_step: OnStep) -> CommitResult:
        """Remove partitions."""
        ...

    def close(self) -> None:
        """Give back what the engine holds."""
        ...


@runtime_checkable
class SupportsParquetFiles(Protocol):
    """An engine that reads Parquet files by itself, so that they need not fit into this process."""

    def write_parquet(self, table: Table, path: str, options: WriteOptions, on_step: OnStep) -> CommitResult:
        """Write the records of a file by the verb of the options."""
        ...


class LocalEngine:
    """Writes in this process."""

    def write(self, table: Table, records: pa.Table, options: WriteOptions, on_step: OnStep) -> CommitResult:
        verb: Verb = getattr(table, options.verb)
        return verb(records, **options.arguments, dry_run=options.dry_run, on_step=on_step)

    def delete(self, table: Table, record_keys: Sequence[str], on_step: OnStep) -> CommitResult:
        return table.delete(record_keys, on_step=on_step)

    def drop(self, table: Table, partitions: Sequence[str], options: DropOptions, on_step: OnStep) -> CommitResult:
        return table.drop_partitions(partitions, **options.arguments, dry_run=options.dry_run, on_step=on_step)

    def close(self) -> None:
        """Nothing is held."""


def open_engine(name: EngineName, *, small: bool = False) -> Engine:
    """An engine, ready to write; to be closed.

    Args:
        name: which one.
        small: for batches of a few thousand records: Spark runs on two threads here, instead of where and how its
            own configuration says.

    Raises:
        SettingsError: the engine is not installed, or its Java is missing.
    """
    if name is EngineName.LOCAL:
        return LocalEngine()
    if find_spec("pyspark") is None:
        raise SettingsError(
            "PySpark is not installed: engine=spark",
            remedy=('install it (pip install "record-level-index[spark]"), or give --engine local'),
        )
    from rli.cli.engines.spark import SparkEngine  # noqa: PLC0415  (an optional dependency)

    return SparkEngine.start(small=small)


def require_local(name: EngineName) -> None:
    """Pass the engine of this process, the only one with dry runs.

    Args:
        name: of the engine that the command was given.

    Raises:
        InvalidInputError: it is another engine.
    """
    if name is not EngineName.LOCAL:
        raise InvalidInputError(f"a dry run works in this process: engine={name}", remedy="leave --engine out")
