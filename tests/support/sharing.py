"""Which tests follow one another when several processes of pytest share the work (``-n 2 --dist loadfile``).

The tests of a file do. So do tests of several files that use the same slow server or JVM: it then starts once in a whole
run, not once for each file or process.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

_SHARED: Final = {
    "Hudi": r"tests/interop/test_hudi_.*[\[-](?P<which>\d+\.\d+\.\d+)[\]-]",
    # Two halves, for two processes: without the tests of Hudi, as on PySpark 4, there is little else to run beside them.
    "Spark, first half": r"tests/(spark/(?!test_failures|test_executor_losses|test_copies_of_tasks)test_[a-m]|docs/.*_in_spark$)",
    "Spark, second half": r"tests/(spark/test_[n-z]|crash/test_kill_of_(spark_drivers|streams))",
    "S3": r"tests/storage/",
    "HBase": r"tests/((conformance|services)/test_hbase|services/.*::test_.*hbase|.*[\[-]hbase[\]-])",
    "Redis Cluster": r"tests/(conformance/test_redis|services/test_(redis_(servers|cluster|concurrency|going_back)|table_faults|round_trips))",
}
"""By what they share: the tests. A test that is missing here works, but may start another server."""

_WEIGHTS: Final = {"timeout": 200, "slow": 20, "spark": 10}
"""How many other tests last about as long as one that bears a mark; those with a limit of their own last longest."""


def work_unit(nodeid: str) -> str:
    """What the tests that follow one another have in common."""
    for name, pattern in _SHARED.items():
        found = re.match(pattern, nodeid)
        if found is not None:
            return " ".join([name, *found.groupdict().values()])
    return nodeid.partition("::")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the work units that last longest, so that no process is left with one of them in the end."""
    if not hasattr(config, "workerinput"):
        return
    tests: Counter[str] = Counter()
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        tests[work_unit(item.nodeid)] += max((_WEIGHTS[mark] for mark in marks & _WEIGHTS.keys()), default=1)
    items.sort(key=lambda item: (-tests[work_unit(item.nodeid)], work_unit(item.nodeid)))


class SharingScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Gives each process one work unit after the other, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return work_unit(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharingScheduling | None:
    """Take the place of pytest-xdist's own scheduling by file."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return SharingScheduling(config, log)
