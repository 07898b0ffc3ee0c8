"""A process that runs Apache Hudi of one version on Spark and takes orders as JSON lines.

Orders come on standard input, one JSON object a line with the keys of ``_OPERATIONS``' functions; each is answered
by one line on the stream that was standard output: ``{"ok": true, "result": …}`` or ``{"ok": false, "error": text}``.
Rows travel as Parquet files, whose paths are in the orders.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.spark import spark_session


def _read(spark: SparkSession, *, path: str, output: str, options: dict[str, str], where: str | None) -> None:
    frame = spark.read.format("hudi").options(**options).load(path)
    if where is not None:
        frame = frame.where(where)
    frame.coalesce(1).write.mode("overwrite").parquet(output)


def _write(spark: SparkSession, *, path: str, source: str, options: dict[str, str], mode: str) -> None:
    spark.read.parquet(source).write.format("hudi").options(**options).mode(mode).save(path)


def _sql(spark: SparkSession, *, statement: str) -> list[list[Any]]:
    return [[str(value) for value in row] for row in spark.sql(statement).collect()]


_OPERATIONS: dict[str, Callable[..., Any]] = {"read": _read, "write": _write, "sql": _sql}


def main() -> None:
    """Serve orders until standard input ends."""
    # Spark and its JVM print to standard output; the answers keep a stream of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    version, *class_path = sys.argv[1:]
    spark = spark_session(version, *map(Path, class_path))
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"ok": True, "result": _OPERATIONS[order.pop("operation")](spark, **order)}
        except Exception as error:  # noqa: BLE001  (whatever went wrong is the answer)
            answer = {"ok": False, "error": str(error)}
        answers.write(json.dumps(answer) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
