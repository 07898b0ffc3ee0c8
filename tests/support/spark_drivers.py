"""Python drivers that share one JVM: a driver can be killed, and the next one comes up in a second or two.

The JVM outlives a driver that is killed, and with it whatever tasks that driver had running.
"""

from __future__ import annotations

import os

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tests.support.spark import prepare_workers

_PORT = "PYSPARK_GATEWAY_PORT"
_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105  (the name of a variable)

Door = tuple[int, str]
"""Where a JVM listens, and what it wants to hear."""


def door_of(session: SparkSession) -> Door:
    """How another process of this machine joins the JVM of a session."""
    parameters = session.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]  # noqa: SLF001
    return parameters.port, parameters.auth_token


def joined_session(door: Door) -> SparkSession:
    """A session of this process on the Spark application that runs in that JVM."""
    # The process comes from a fork server, which may be older than what its parent has said of this.
    prepare_workers()
    os.environ[_PORT], os.environ[_SECRET] = str(door[0]), door[1]
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(running)
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf())))
