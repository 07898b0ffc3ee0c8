"""Runs benchmarks one after the other, each in a process of its own: with its own JVM, and memory of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.measuring import Outcome, run_apart

NAMES: Final = (
    "lmdb_store",
    "index_size",
    "redis_store",
    "hbase_store",
    "parquet_files",
    "hfile",
    "log_file",
    "skipping",
    "metadata_upkeep",
    "column_indexes",
    "metadata_indexes",
    "point_reads",
    "changes",
    "upsert_memory",
    "growth",
    "commits",
    "durability",
    "deduplicate",
    "table_types",
    "compaction",
    "stream",
    "small_batches",
    "change_stream",
    "buffered_writer",
    "spark_tag",
    "spark_batches",
    "first_run",
    "spark_stores",
    "cluster",
    "advise",
    "stream_state",
    "peers",
    "kinds",
    "metadata_kinds",
    "beside_hudi",
)
"""Each is a module of this package with ``run(folder, *, quick)``."""

LARGE: Final = ("large_tables", "merge_on_read", "first_run")
"""Those of large tables run only where they are asked for; the chart of all has the figures of the first and the last of these."""


def run_all(names: Sequence[str], console: Console, *, quick: bool) -> Iterator[tuple[str, list[Outcome]]]:
    """The figures of each benchmark, as soon as it has run; each runs in a process of its own.

    One that fails is told on the console, and is left out.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            started = time.monotonic()
            try:
                outcomes = run_apart(_run, name, quick=quick)
            except Exception as error:  # noqa: BLE001  (whatever went wrong is told, and the others go on)
                progress.console.print(f"[red]failed:[/] {name}: {escape(str(error))}")
            else:
                progress.console.print(f"measured: {name} in {(time.monotonic() - started) / 60:.1f} min")
                yield name, outcomes
            progress.advance(task)


def _run(name: str, *, quick: bool) -> list[Outcome]:
    with TemporaryDirectory() as folder:
        before = _load()
        try:
            outcomes: list[Outcome] = import_module(f"benchmarks.{name}").run(Path(folder), quick=quick)
        except pytest.skip.Exception as skipped:
            # Servers come from the fixtures of tests, which skip what cannot run; a skip cannot be sent to the parent.
            raise RuntimeError(f"it cannot run here: {skipped}") from None
        load = max(before, _load())
        return [replace(outcome, load=load) for outcome in outcomes]


def _load() -> float:
    """How many processes wanted a processor in the last minute, on average: those of the benchmark count, too."""
    return os.getloadavg()[0]
