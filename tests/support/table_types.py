"""Tests run over both types of table from one definition: each case on one of the types in CI, on both in ``make soak``.

A test or fixture has its two types as parameters, named alike but for the word ``logs`` or ``bases``. Of each such pair, CI keeps
one, in turn. So both types meet each test that has several cases, and in the end each of their other parameters.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from typing import Final

import pytest

from rli import TableType
from tests.support.soak import EVERY_POINT

BOTH_TYPES: Final = {"bases": TableType.COPY_ON_WRITE, "logs": TableType.MERGE_ON_READ}
"""Names for parameters: the type."""

of_both_types = pytest.mark.parametrize("table_type", BOTH_TYPES.values(), ids=BOTH_TYPES.keys())

_TYPE: Final = re.compile(r"(?<=[\[-])(logs|bases)(?=[\]-])")


def other_of_the_pair(nodeid: str) -> str:
    """What both tests of a pair have in common; the name itself of a test without a pair."""
    return _TYPE.sub("*", nodeid)


def one_of_each_pair(nodeids: list[str]) -> set[str]:
    """The tests that CI keeps.

    Args:
        nodeids: names of tests, pytest's parameters included.
    """
    pairs: defaultdict[str, list[str]] = defaultdict(list)
    for nodeid in nodeids:
        pairs[other_of_the_pair(nodeid)].append(nodeid)
    kept, seen = set(), Counter[str]()
    for name, members in pairs.items():
        function = name.partition("[")[0]
        turn = zlib.crc32(function.encode()) + seen[function]
        seen[function] += len(members) > 1
        kept.add(sorted(members)[turn % len(members)])
    return kept


@pytest.hookimpl
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one test of each pair in CI."""
    if EVERY_POINT:
        return
    kept = one_of_each_pair([item.nodeid for item in items])
    left_out = [item for item in items if item.nodeid not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid in kept]
