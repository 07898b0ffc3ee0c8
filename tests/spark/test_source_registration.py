"""PySpark 3 has no Python data sources, and ``register`` says what reads a table there."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark


@pytest.mark.spark
@pytest.mark.skip_allowed("PySpark 4 has Python data sources")
@pytest.mark.skipif(not pyspark.__version__.startswith("3."), reason="PySpark 4 has Python data sources")
def test_spark_3_learns_what_to_use(spark: SparkSession) -> None:
    with pytest.raises(rli.SettingsError, match=r"no Python data sources.*rli_spark\.read"):
        rli_spark.register(spark)
