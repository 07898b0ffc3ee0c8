"""Where executors may run, by Spark's master."""

from __future__ import annotations

import socket

import pytest

from rli_spark.session.executors import may_run_here

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

HERE = [
    "local",
    "local[2]",
    "local[*,3]",
    "local-cluster[2,1,1024]",
    "spark://127.0.0.1:7077",
    "spark://[::1]:7077",
    f"spark://{socket.gethostname()}:7077",
]
ELSEWHERE = [
    "spark://192.0.2.1:7077",
    "spark://127.0.0.1:7077,192.0.2.1:7077",
    "spark://no-such-host.invalid:7077",
    "yarn",
    "k8s://https://127.0.0.1:6443",
    "mesos://127.0.0.1:5050",
    "localhost",
]


@pytest.mark.parametrize("master", HERE)
def test_local_index_serves_local_executors(master: str) -> None:
    assert may_run_here(master)


@pytest.mark.parametrize("master", ELSEWHERE)
def test_local_index_refuses_remote_executors(master: str) -> None:
    assert not may_run_here(master)
