"""Reading ahead: items in order, a bound on those that wait, and no thread left at work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from functools import partial
from threading import Barrier, active_count

import pytest

from rli.read_ahead import read_ahead


def numbers(start: int, count: int, log: list[str] | None = None) -> Generator[int, None, None]:
    try:
        yield from range(start, start + count)
    finally:
        if log is not None:
            log.append(f"closed {start}")


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_items_come_in_order(at_once: int) -> None:
    sources = [partial(numbers, 100 * number, number * 7) for number in range(6)]
    expected = [item for source in sources for item in source()]
    assert [*read_ahead(sources, at_once=at_once, most=3)] == expected
    assert [*read_ahead([], at_once=at_once, most=3)] == []


def test_sources_are_read_side_by_side() -> None:
    both = Barrier(2, timeout=60)

    def meeting(number: int) -> Generator[int, None, None]:
        both.wait()
        yield number

    assert [*read_ahead([partial(meeting, 0), partial(meeting, 1)], at_once=2, most=1)] == [0, 1]


def test_few_items_wait() -> None:
    given = list[int]()

    def counted() -> Generator[int, None, None]:
        for number in range(1_000):
            given.append(number)
            yield number

    for taken, _ in enumerate(read_ahead([counted], at_once=1, most=3)):
        # Three are with the caller, and as many are read meanwhile.
        assert len(given) <= taken + 3 + 3


def test_failure_comes_behind_its_items() -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        raise ValueError("of a source")

    taken = list[int]()
    with pytest.raises(ValueError, match="of a source"):
        taken.extend(read_ahead([failing, partial(numbers, 5, 5)], at_once=2, most=2))
    assert taken == [1]


def test_abandoned_sources_are_closed() -> None:
    before, log = active_count(), list[str]()
    items = read_ahead([partial(numbers, 1_000 * number, 500, log) for number in range(4)], at_once=2, most=2)
    assert next(items) == 0
    items.close()
    assert sorted(log) == ["closed 0", "closed 1000"]
    assert active_count() == before


LEFT_IN_THE_MIDDLE = """
from rli.read_ahead import read_ahead
items = read_ahead([lambda: (n for n in range(1000)), lambda: (n for n in range(1000))], at_once=2, most=2)
print(next(items), flush=True)
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)"])
def test_process_ends_with_unread_items(end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT_IN_THE_MIDDLE + end], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 3 if end else 0)
