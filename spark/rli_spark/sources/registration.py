"""Makes the format ``rli`` known to a session."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from rli.errors import SettingsError
from rli_spark.session.connect import default_parallelism
from rli_spark.session.logs import follow_spark

_PUSHES_FILTERS: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make the format ``rli`` known to a session, for ``spark.read``, ``spark.readStream`` and SQL. Needs PySpark 4.

    Spark then also gives filters to its Python data sources: ``spark.sql.python.filterPushdown.enabled`` becomes true, unless it was
    set. Where it was set to false, the format reads without them.

    Args:
        spark: the session; each session registers the format for itself.

    Example:
        >>> rli_spark.register(spark)  # doctest: +SKIP
        >>> spark.read.format("rli").load("trips").where("city = 'Rome'").count()  # doctest: +SKIP
        2

    Raises:
        SettingsError: this is PySpark 3, which has no Python data sources.
    """
    if find_spec("pyspark.sql.datasource") is None:
        raise SettingsError(
            f"this release of PySpark has no Python data sources: pyspark={pyspark.__version__}",
            remedy="read with rli_spark.read and rli_spark.changes, or install PySpark 4",
        )
    follow_spark(spark)
    from rli_spark.sources.source import source_for  # noqa: PLC0415  (PySpark 3 cannot import it)

    if spark.conf.get(_PUSHES_FILTERS, None) is None:
        spark.conf.set(_PUSHES_FILTERS, value=True)
    pushes = spark.conf.get(_PUSHES_FILTERS) == "true"
    spark.dataSource.register(source_for(default_parallelism(spark), pushes_filters=pushes))  # type: ignore[attr-defined]
