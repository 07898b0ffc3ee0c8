"""Measuring two ways of doing a thing against each other, so that the ratio holds on a noisy machine."""

from __future__ import annotations

import gc
import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context
from pathlib import Path
from typing import Final, Literal, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

_SAMPLED_EVERY: Final = 0.005
"""Seconds."""

_ROUNDED_FROM: Final = 10
"""Figures from there on are shown with one digit after the point, smaller ones with two."""


class Unit(StrEnum):
    """How a figure is read: as a multiple of the baseline, as a share of a limit, or in bytes."""

    TIMES = "times"
    SHARE = "share"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One figure of a benchmark.

    Attributes:
        name: what was measured.
        baseline: against what.
        ratio: the figure; bytes per entry have the baseline "1 entry".
        goal: what it is to reach; None where there is nothing to reach.
        better: which figures are good ones; with a goal, whether it is a floor or a ceiling.
        details: what the figure is made of, in words.
        unit: of ``ratio``.
        load: average of the machine as the benchmark began or ended, whichever was greater; None where nobody noted it.
    """

    name: str
    baseline: str
    ratio: float
    goal: float | None
    better: Literal["higher", "lower"]
    details: str
    unit: Unit = Unit.TIMES
    load: float | None = None

    @property
    def figure(self) -> str:
        """The figure as people read it."""
        return self._text(self.ratio)

    @property
    def target(self) -> str:
        """The goal as people read it; empty if there is none."""
        return "" if self.goal is None else f"{'≥' if self.better == 'higher' else '≤'} {self._text(self.goal)}"

    @property
    def reached(self) -> bool:
        """Whether it is on the right side of its goal, if it has one."""
        if self.goal is None:
            return True
        return self.ratio >= self.goal if self.better == "higher" else self.ratio <= self.goal

    def _text(self, value: float) -> str:
        if self.unit is Unit.SHARE:
            return f"{value:.0%}"
        sign = "B" if self.unit is Unit.BYTES else "\N{MULTIPLICATION SIGN}"
        return f"{value:.2f} {sign}" if value < _ROUNDED_FROM else f"{value:,.1f} {sign}"


@dataclass(frozen=True, slots=True)
class Pair:
    """Seconds of two competitors, run in turn.

    Attributes:
        ours, baseline: the seconds of each round.
    """

    ours: tuple[float, ...]
    baseline: tuple[float, ...]

    @property
    def time_ratio(self) -> float:
        """Our time over the baseline's: the median of the rounds' ratios."""
        return statistics.median(ours / baseline for ours, baseline in zip(self.ours, self.baseline, strict=True))

    @property
    def speed_ratio(self) -> float:
        """Our speed over the baseline's."""
        return 1 / self.time_ratio


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work took in a process of its own.

    Attributes:
        seconds: of the work.
        memory: bytes that the work took at most, on top of what the process had before.
    """

    seconds: float
    memory: int


def race(
    ours: Callable[[], object],
    baseline: Callable[[], object],
    rounds: int = 5,
    reset: Callable[[], object] = lambda: None,
) -> Pair:
    """Run both in turn, after one round that does not count; ``reset`` runs before each, and its time does not count."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for round_number in range(rounds + 1):
        for competitor, taken in zip((ours, baseline), seconds, strict=True):
            reset()
            gc.collect()
            started = time.perf_counter()
            competitor()
            if round_number:
                taken.append(time.perf_counter() - started)
    return Pair(tuple(seconds[0]), tuple(seconds[1]))


def seconds(work: Callable[[], object]) -> float:
    """How long some work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _peak_memory(work: Callable[[], object]) -> int:
    """The most bytes of memory of its own that this process had while it did some work.

    Pages of mapped files do not count: they are the system's cache, and given back when others need them.
    """
    ended = threading.Event()
    peak = _private_memory()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(_SAMPLED_EVERY):
            peak = max(peak, _private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        ended.set()
        watcher.join()
    return peak


def run_apart(function: Callable[Given, Result], *arguments: Given.args, **named: Given.kwargs) -> Result:
    """What a function of a module returns, or raises, in a process of its own: with its own JVM, and its own memory."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments, **named).result()


def cost_apart(prepare: Callable[..., AbstractContextManager[Callable[[], object]]], *arguments: object) -> Cost:
    """What some work takes in a process of its own.

    Args:
        prepare: a function of a module; gives the work, and ends what it needs.
        arguments: for ``prepare``.
    """
    return run_apart(_cost, prepare, arguments)


def _cost(prepare: Callable[..., AbstractContextManager[Callable[[], object]]], arguments: tuple[object, ...]) -> Cost:
    with prepare(*arguments) as work:
        before = _private_memory()
        started = time.perf_counter()
        peak = _peak_memory(work)
        return Cost(time.perf_counter() - started, peak - before)


def _private_memory() -> int:
    return kibibytes(process_status(Path("/proc/self"))["RssAnon"])


def processor_seconds(process: int) -> float:
    """Seconds of processor time of a process and of all processes that it started, including ended ones."""
    ticks = sum(sum(map(int, fields[11:15])) for fields in _family(process).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def written_bytes(process: int) -> int:
    """Bytes that a process and all processes that it started have given to write calls (proc(5), ``io``)."""
    return sum(_written_by(member) for member in _family(process))


def _written_by(process: int) -> int:
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def _family(process: int) -> dict[int, list[str]]:
    """A process and the living ones that it started: what proc(5) says in ``stat`` behind the name of the program."""
    told = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of the program, in parentheses, may hold any character.
            number, _, rest = file.read_text().partition(" (")
            told[int(number)] = rest.rpartition(") ")[2].split()
    found, waiting = {}, [process]
    while waiting:
        own = waiting.pop()
        found[own] = told[own]
        waiting += [other for other, fields in told.items() if int(fields[1]) == own]
    return found


def process_status(process: Path) -> dict[str, str]:
    """What proc(5) says in ``status`` of a process, given by its folder."""
    return dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())


def kibibytes(size: str) -> int:
    """The bytes that ``status`` gives as "12 kB"."""
    return int(size.split(maxsplit=1)[0]) * 1024
