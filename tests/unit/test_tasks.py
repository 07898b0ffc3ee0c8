"""Tasks in this process: results in order, side by side in threads, and none of them left running after a failure."""

from __future__ import annotations

from threading import Barrier, Event, Thread, current_thread

import pyarrow as pa
import pytest

from rli.tasks import InProcess, InThreads, TaskRunner

MANY = range(200)


@pytest.mark.parametrize("runner", [InProcess(), InThreads()])
def test_results_follow_item_order(runner: TaskRunner) -> None:
    assert list(runner.run(lambda number: number * 2, MANY)) == [number * 2 for number in MANY]
    assert list(runner.run(lambda number: number, [])) == []


def test_threads_run_tasks_side_by_side() -> None:
    at_once = min(pa.cpu_count(), 2)
    together = Barrier(at_once, timeout=60)
    assert sorted(InThreads().run(lambda _: together.wait(), range(at_once))) == list(range(at_once))


def test_failure_leaves_no_running_task() -> None:
    begun: set[int] = set()
    ended: set[int] = set()

    def task(number: int) -> None:
        begun.add(number)
        if number == 1:
            raise ValueError("of the second")
        ended.add(number)

    with pytest.raises(ValueError, match="of the second"):
        list(InThreads().run(task, MANY))
    assert begun - ended == {1}


def test_abandoned_reader_leaves_no_running_task() -> None:
    begun: set[int] = set()
    ended: set[int] = set()

    def task(number: int) -> None:
        begun.add(number)
        ended.add(number)

    for _ in InThreads().run(task, MANY):
        break
    assert begun == ended


def test_interrupted_start_leaves_no_running_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, both_begun = Thread.start, Event()
    started: list[Thread] = []
    begun: set[int] = set()
    ended: set[int] = set()

    def interrupted_start(thread: Thread) -> None:
        started.append(thread)
        start(thread)
        if len(started) == at_once:
            assert both_begun.wait(60)
            raise KeyboardInterrupt

    def task(number: int) -> None:
        begun.add(number)
        if len(begun) == at_once:
            both_begun.set()
        assert both_begun.wait(60)
        if current_thread() is started[-1]:
            Event().wait(0.2)  # for longer than it takes to tell of the interrupt
        ended.add(number)

    at_once = min(pa.cpu_count(), 2)
    monkeypatch.setattr(Thread, "start", interrupted_start)
    with pytest.raises(KeyboardInterrupt):
        list(InThreads().run(task, MANY))
    assert begun == ended == set(range(at_once))
