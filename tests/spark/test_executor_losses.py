"""Executors die, are decommissioned or given back in the middle of writes, and frames do not recompute to the same rows.

All cases share one cluster, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.executor_losses import KNOWN, ROWS, UPSERTS
from tests.support.orders import OrderedProcess
from tests.support.soak import in_ci
from tests.support.spark import prepare_workers

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.slow]

EXACTLY_ONCE = {"counts": [ROWS - KNOWN, 0, KNOWN, 0], "missing": 0, "repeated": 0, "strays": 0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrderedProcess]:
    prepare_workers()
    folder = tmp_path_factory.mktemp("losses")
    with OrderedProcess("tests.spark.executor_losses", [str(folder)], folder) as process:
        yield process
        process.order("check")


@pytest.mark.invariant("P19")
@pytest.mark.parametrize("case", in_ci(["killed after request, tags and files"], of=UPSERTS))
def test_upsert_writes_once_despite_lost_executors(cluster: OrderedProcess, case: str) -> None:
    assert cluster.order("upsert", case=case) == EXACTLY_ONCE


@pytest.mark.soak
@pytest.mark.invariant("P19")
def test_upsert_in_files_survives_losses(cluster: OrderedProcess) -> None:
    assert cluster.order("upsert_in_files") == EXACTLY_ONCE


@pytest.mark.invariant("P19")
def test_load_survives_lost_executors(cluster: OrderedProcess) -> None:
    assert cluster.order("load") == {**EXACTLY_ONCE, "counts": [ROWS, 0, 0, 0]}


def test_delete_survives_lost_executors(cluster: OrderedProcess) -> None:
    assert cluster.order("delete") == {"requested": ROWS, "agrees": True}


def test_clustering_survives_lost_executors(cluster: OrderedProcess) -> None:
    assert cluster.order("cluster") == {"replaced": True, "same": True}
