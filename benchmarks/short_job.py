"""A job of Spark that loads a file into a new table, and ends: ``spark-submit short_job.py FORMAT SOURCE FOLDER OPTIONS``.

It imports what its engine needs alone, as a user's job does.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql


def main(engine: str, source: str, folder: str, options: dict[str, str]) -> None:
    """Load the file.

    Args:
        engine: its format, as Spark names it; ``rli``.
        source: a file of Parquet.
        folder: of the new table; the name of a table of Iceberg.
        options: of the writer.
    """
    rows = SparkSession.builder.getOrCreate().read.parquet(source)
    if engine == "rli":
        import rli  # noqa: PLC0415
        import rli_spark  # noqa: PLC0415

        with rli.create_table(folder, record_key="id", partition_by="part", ordering="version") as table:
            rli_spark.upsert(rows, table)
    elif engine == "iceberg":
        rows.writeTo(folder).partitionedBy(sql.col("part")).create()
    else:
        rows.write.format(engine).partitionBy("part").options(**options).save(folder)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
