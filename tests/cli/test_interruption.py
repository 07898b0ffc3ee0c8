"""A Ctrl-C that Python dropped is noticed at the next step of the work."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from rli.cli.interruption import watch_for_interruption
from rli.cli.progress import Interrupted, write_progress
from rli.model import Step


@pytest.fixture(autouse=True)
def _restored_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    watch_for_interruption()
    yield
    signal.signal(signal.SIGINT, before)


def drop_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def work_through_a_dropped_interruption() -> None:
    with write_progress("batch") as on_step:
        on_step(Step.INFLIGHT)
        drop_an_interruption()
        on_step(Step.TAGGED)
        pytest.fail("the work went on")


def test_a_dropped_interruption_ends_the_work_at_its_next_step() -> None:
    with pytest.raises(Interrupted, match="batch: nothing was written"):
        work_through_a_dropped_interruption()


def test_work_after_an_interruption_that_was_dealt_with_goes_on() -> None:
    with pytest.raises(Interrupted), write_progress("first"):
        signal.raise_signal(signal.SIGINT)
    with write_progress("second") as on_step:
        on_step(Step.INFLIGHT)
