"""Rules that hold for every test of the suite."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.support.soak import cases

# No deadline: how long one example takes says more about the machine's other work than about the code.
settings.register_profile("rli", deadline=None, max_examples=cases(25), print_blob=True)
settings.load_profile("rli")

pytest_plugins = ["tests.support.turns", "tests.support.lanes", "tests.support.services", "tests.support.sharing"]

_REQUIRE_ALL = os.environ.get("RLI_REQUIRE_ALL") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With RLI_REQUIRE_ALL=1 a skipped test fails: CI must not be green because something was missing.

    A test that may be skipped even there carries the marker ``skip_allowed`` with its reason.
    """
    report = yield
    skipped = report.skipped and not hasattr(report, "wasxfail")
    if _REQUIRE_ALL and skipped and item.get_closest_marker("skip_allowed") is None:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped while RLI_REQUIRE_ALL=1: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself (``pytest.importorskip``)."""
    report = yield
    if _REQUIRE_ALL and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} was skipped while RLI_REQUIRE_ALL=1: {report.longrepr}"
    return report
