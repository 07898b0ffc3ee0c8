"""The engine that writes with Spark."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.resources import as_file, files
from threading import Thread
from types import FrameType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import SparkSession

import rli_spark
from rli.cli.engines.java import is_java_there
from rli.cli.engines.options import DropOptions, Verb, WriteOptions
from rli.commit.step_clock import OnStep
from rli.errors import SettingsError
from rli.hudi.meta_columns import RECORD_KEY
from rli.model import CommitResult
from rli.table.table import Table

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
_SMALL: Final = {
    "spark.master": "local[2]",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "rli_spark.daemon",
    # Compiling plans and replanning them costs more than it brings.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
_SECONDS_TO_CANCEL: Final = 10.0
_SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class SparkEngine:
    """Writes with a Spark session of its own."""

    def __init__(self, session: SparkSession, resources: ExitStack) -> None:
        self._session = session
        self._resources = resources

    @classmethod
    def start(cls, *, small: bool) -> Self:
        """Start a session; see ``open_engine``.

        Raises:
            SettingsError: there is no Java.
        """
        _require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        resources = ExitStack()
        log_settings = resources.enter_context(as_file(files("rli.cli.engines") / "log4j2.properties"))
        java_options = f"-Dlog4j2.configurationFile={log_settings.as_uri()} {_SMALL_JAVA if small else ''}"
        builder = SparkSession.builder.appName("rli").config("spark.driver.extraJavaOptions", java_options.strip())
        for name, value in {**_SETTINGS, **(_SMALL if small else {})}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        _cancel_on_interrupt(session, resources)
        return cls(session, resources)

    def write(self, table: Table, records: pa.Table, options: WriteOptions, on_step: OnStep) -> CommitResult:
        with tempfile.TemporaryDirectory(prefix="rli-") as folder:
            path = os.path.join(folder, "records.parquet")
            pq.write_table(records, path)
            return self.write_parquet(table, path, options, on_step)

    def write_parquet(self, table: Table, path: str, options: WriteOptions, on_step: OnStep) -> CommitResult:
        frame = self._session.read.parquet(path)
        verb: Verb = getattr(rli_spark, options.verb)
        return verb(frame, table, **options.arguments, on_step=on_step)

    def delete(self, table: Table, record_keys: Sequence[str], on_step: OnStep) -> CommitResult:
        frame = self._session.createDataFrame([(key,) for key in record_keys], f"{RECORD_KEY} string")
        return rli_spark.delete(frame, table, on_step=on_step)

    def drop(self, table: Table, partitions: Sequence[str], options: DropOptions, on_step: OnStep) -> CommitResult:
        return rli_spark.drop_partitions(self._session, table, partitions, **options.arguments, on_step=on_step)

    def close(self) -> None:
        self._session.stop()
        self._resources.close()


def _cancel_on_interrupt(session: SparkSession, resources: ExitStack) -> None:
    """Let Ctrl-C cancel what Spark is doing and then raise ``KeyboardInterrupt``, until the resources are closed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # In a thread of its own, because this one is in the middle of a call to Spark, and calls do not nest.
        canceller = Thread(target=_cancel, args=(session.sparkContext,), daemon=True)
        canceller.start()
        canceller.join(_SECONDS_TO_CANCEL)
        # The command ends here, and Spark's client would log the interrupt as an error of its own.
        logging.disable()
        raise KeyboardInterrupt

    resources.callback(signal.signal, signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGINT, interrupt)


def _cancel(context: SparkContext) -> None:
    # Tasks that are cut off report errors that mean nothing to anybody.
    context.setLogLevel("OFF")
    context.cancelAllJobs()


def _require_java() -> None:
    if not is_java_there():
        raise SettingsError(
            f"Spark needs Java, and no Java was found: JAVA_HOME={os.environ.get('JAVA_HOME')}",
            remedy="install Java 17, or give --engine local",
        )
