"""Executors log in to an index as the driver does, and Spark's settings, plans and errors tell no password."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli_redis.log_in import PASSWORD_VARIABLE
from tests.support.docker import Service
from tests.support.leaks import MARK
from tests.support.redis import spare_server

pytestmark = [pytest.mark.spark, pytest.mark.docker]


@pytest.mark.one_spark
def test_executors_use_driver_credentials(
    spark: SparkSession, redis_server: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.createDataFrame([(f"k{n}", "Oslo") for n in range(50)], "id string, city string")
    # What the driver knows since the JVM runs, no executor has from its environment.
    frame.mapInArrow(lambda batches: batches, frame.schema).count()
    monkeypatch.setenv(PASSWORD_VARIABLE, MARK)
    with spare_server(redis_server, "--requirepass", MARK) as server:
        table = rli.create_table(tmp_path / "trips", record_key="id", partition_by="city", index=server.url())
        assert rli_spark.upsert(frame, table).inserted == 50
        tagged = rli_spark.tag(frame, table)
        assert tagged.where("_rli_file_id is not null").count() == 50
        plan: str = tagged._jdf.queryExecution().toString()  # noqa: SLF001
        assert "MapInArrow" in plan
        assert MARK not in plan + str(spark.sparkContext.getConf().getAll())
        server.client(password=MARK).config_set("requirepass", "another")
        with pytest.raises(PySparkException, match="refuses the log-in") as refused:
            tagged.count()
        assert MARK not in str(refused.value)
        server.client(password="another").config_set("requirepass", MARK)  # noqa: S106  (the test's own)
        table.drop_index()
