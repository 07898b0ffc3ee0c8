"""Where a write runs: by the driver or by tasks, in how many jobs and tasks. Decided here alone, and from numbers alone.

Each job of Spark costs more than all the work of a small write. So on a cluster the driver does small writes itself. With a
local master, tasks run on the driver's machine, and moving rows to tasks gains nothing: the driver does larger writes too.

A write is planned stage by stage, because each stage tells the numbers of the next one. Every decision is told with its numbers
and its reason, as the log event ``execution.plan``. This module knows no Spark: ``resources`` asks a session for its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from rli_spark.planning.parallelism import Parallelism

_MEBIBYTE: Final = 1024 * 1024


class Place(StrEnum):
    """Where the work of a stage is done."""

    DRIVER = "driver"
    TASKS = "tasks"


class Stage(StrEnum):
    """A stage of a write."""

    REQUEST = "request"
    """The frame is computed, and its rows are keyed."""

    TAG = "tag"
    """Keys are located: rows become work rows."""

    RESOLVE = "resolve"
    """Records that move are compared with the stored ones."""

    WRITE = "write"
    """File groups are written."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Up to what the driver, or a task, does work at once. The numbers are measured.

    Attributes:
        brought_bytes: of rows that come to the driver with the results of a job, which its heap holds.
        collected_bytes: of rows that come to the driver of a local master as Arrow, from Spark's own tasks, without Python
            workers, however large its heap, which holds these rows for a moment.
        collected_on_cluster: the same, of a cluster. Of more rows, the jobs of tasks take less time than the driver.
        read_bytes: of rows that the driver reads from files, whatever its heap: Python takes about five times as much, and Arrow
            puts at most 2 GiB of strings into an array.
        heaps_of_rows: on a local master the driver reads rows of up to this part of its heap. Python holds these rows outside of
            the heap, so the heap tells the memory of the machine only roughly.
        heaps_collected: for a moment, Spark's heap holds several copies of the rows that come as Arrow.
        results_of_job: a part of ``spark.driver.maxResultSize``: with any master, Spark fails a job whose results exceed it.
        growth: a frame has this many times the bytes that Spark expects: Spark takes rows for as large as their compressed files.
            Keys add as much again, so the driver of a cluster may hold twice ``collected_bytes``.
        local_cores: up to this many, threads of the driver are as fast as tasks: they wait for Python's lock about a tenth of the
            time that they work.
        searched_bytes: of base files in which the driver looks for keys, where no store knows them or records move: it reads their
            key columns.
        opening_bytes: to open a file takes about as long as to search this many bytes.
        rewritten_bytes: of base files that a thread of a cluster's driver rewrites: about a task's share.
        file_groups: the driver writes about this many small ones in the time that the jobs of Spark take beside their tasks' work.
        tasks_like_driver: this many tasks at a time write small file groups about as fast as the driver does.
        tasks_of_one_sum: whose counts one other task adds up.
        keys_at_once: that a task looks for in files. For more keys, it reads the key columns of its files more than once.
    """

    brought_bytes: int = 16 * _MEBIBYTE
    collected_bytes: int = 256 * _MEBIBYTE
    collected_on_cluster: int = 64 * _MEBIBYTE
    read_bytes: int = 1024 * _MEBIBYTE
    heaps_of_rows: int = 4
    heaps_collected: int = 12
    results_of_job: int = 8
    growth: int = 2
    local_cores: int = 8
    searched_bytes: int = 256 * _MEBIBYTE
    opening_bytes: int = _MEBIBYTE
    rewritten_bytes: int = 64 * _MEBIBYTE
    file_groups: int = 250
    tasks_like_driver: int = 2
    tasks_of_one_sum: int = 16
    keys_at_once: int = 2_000_000


LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Resources:
    """What a session has for a write.

    Attributes:
        result_bytes: the greatest size of the results of a job.
        local_cores: threads of a local master; None if tasks run on other machines.
        heap_bytes: of the driver, at most; 0 if it is on another machine.
        set_bytes: size of rows that the driver writes, as the user set it; None if nobody did.
        driver_threads: that write file groups at a time, as the plan counts on.
    """

    result_bytes: int
    local_cores: int | None = None
    heap_bytes: int = 0
    set_bytes: int | None = None
    driver_threads: int = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """How a stage of a write is done.

    Attributes:
        stage: the stage.
        place: who does the work.
        reason: in words, with the limit that decided.
        jobs: of Spark.
        tasks: of each job; 0 if the driver works, or Spark decides.
        rows: of the write; None if nobody has counted them.
        size: bytes of rows, or of file groups with the rows that they get.
        files: how many files or file groups there are to search, compare or write.
    """

    stage: Stage
    place: Place
    reason: str
    jobs: int = 0
    tasks: int = 0
    rows: int | None = None
    size: int | None = None
    files: int | None = None

    @property
    def by_driver(self) -> bool:
        """Whether the driver does the work."""
        return self.place is Place.DRIVER


def _to_nobody(_: Decision) -> None:
    """Takes a decision and tells nobody."""


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Decides how the stages of one write are done.

    Attributes:
        resources: of the session.
        parallelism: of its tasks.
        is_load: whether the table holds no records yet, so that the files of the request are arranged for tasks.
        limits: of the driver's work.
        tell: gets each decision.
    """

    resources: Resources
    parallelism: Parallelism
    is_load: bool = False
    limits: Limits = LIMITS
    tell: Callable[[Decision], None] = field(default=_to_nobody, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether tasks run on the machine of the driver, no more at a time than its threads replace."""
        cores = self.resources.local_cores
        return cores is not None and cores <= self.limits.local_cores

    @property
    def brought_bytes(self) -> int:
        """Up to how many bytes of rows come to the driver with the results of the request's job."""
        most = self._row_bytes if self.resources.set_bytes is not None or self.is_local else self.limits.brought_bytes
        if self.is_local:
            most = min(most, self.limits.brought_bytes)
        return min(most, self._result_bytes)

    @property
    def collected_bytes(self) -> int:
        """Up to how many bytes of rows come to the driver as Arrow, past all workers."""
        of_heap = self.resources.heap_bytes // self.limits.heaps_collected
        if self.is_local:
            return min(self._row_bytes, self.limits.collected_bytes, of_heap, self._result_bytes)
        if self.resources.set_bytes is not None:
            return self.brought_bytes
        return max(self.brought_bytes, min(self.limits.collected_on_cluster, of_heap, self._result_bytes))

    @property
    def held_bytes(self) -> int:
        """Bytes of keyed rows that the driver holds, at most: keys add to the bytes of rows that came as Arrow."""
        if self.is_local:
            return min(self._row_bytes, self.limits.read_bytes)
        is_set = self.resources.set_bytes is not None
        return self.brought_bytes if is_set else self.collected_bytes * self.limits.growth

    @property
    def read_bytes(self) -> int:
        """Up to how many bytes of rows the driver reads from the request's files; 0: it reads none."""
        # The files of a load are arranged for tasks, which write them in less time than the driver.
        return self.held_bytes if self.is_local and not self.is_load else 0

    def collects(self, expected: int) -> bool:
        """Whether the rows of a frame come as Arrow, by the bytes that Spark expects of it."""
        return expected * self.limits.growth <= self.collected_bytes

    def sums(self, tasks: int) -> int:
        """How many tasks add up the counts of so many others; 1: the driver does."""
        return max(1, tasks // self.limits.tasks_of_one_sum)

    def key_ranges(self, keys: int) -> int:
        """In how many ranges a task looks for so many keys in its files."""
        return -(-keys // self.limits.keys_at_once)

    def request(self, rows: int, size: int, *, brought: int, files: int) -> Decision:
        """Who tags and writes the rows of a request, once its job has run.

        Args:
            rows: of the request.
            size: their bytes.
            brought: how many tasks gave their rows to the driver.
            files: how many tasks wrote theirs.
        """
        if brought and not files:
            place, reason = Place.DRIVER, "all rows came to the driver with the results of the job"
        elif files and size <= self.read_bytes:
            place, reason = Place.DRIVER, f"the driver of a local master reads up to {self.read_bytes} bytes of rows"
        elif not files:
            place, reason = Place.TASKS, "there are no rows"
        elif self.is_load:
            place, reason = Place.TASKS, "the rows of a first load are arranged for tasks"
        else:
            place = Place.TASKS
            reason = (
                f"the driver takes up to {max(self.brought_bytes, self.read_bytes)} bytes of rows from Python workers, and "
                f"{self.collected_bytes} as Arrow"
            )
        return self._told(Decision(Stage.REQUEST, place, reason, 1, 0, rows, size, files))

    def tag(
        self, rows: int, size: int, held: Place, *, jobs_before: int = 0, searched: Collection[int] = ()
    ) -> Decision:
        """Who locates the keys.

        Args:
            rows: of the request.
            size: their bytes.
            held: where the rows are.
            jobs_before: that tasks would need to search the table's files for the keys.
            searched: bytes of each of those files; none if a store knows the keys.
        """
        work = sum(searched) + len(searched) * self.limits.opening_bytes
        numbers = (rows, size, len(searched) or None)
        if held is Place.DRIVER and work <= self.limits.searched_bytes:
            return self._told(Decision(Stage.TAG, held, "the rows are in the driver", 0, 0, *numbers))
        reason = "the rows are in files"
        if held is Place.DRIVER:
            reason = (
                f"the files to search make {work} bytes of work, and the driver does up to {self.limits.searched_bytes}"
            )
        tasks = self.parallelism.for_bytes(size)
        return self._told(Decision(Stage.TAG, Place.TASKS, reason, 1 + jobs_before, tasks, *numbers))

    def compare_fingerprints(self, rows: int, size: int) -> Decision:
        """Who compares the keys of a load with each other, by fingerprints of so many bytes."""
        reason = "the rows of a first load are compared with each other by fingerprints, and need no tag"
        if size <= self.brought_bytes:
            # A job takes longer than to read and sort them.
            return self._told(Decision(Stage.TAG, Place.DRIVER, reason, 0, 0, rows, size))
        return self._told(Decision(Stage.TAG, Place.TASKS, reason, 1, self.parallelism.for_bytes(size), rows, size))

    def resolve(self, size: int, held: Place, sizes: Collection[float]) -> Decision:
        """Who compares moving records with the stored ones.

        Args:
            size: bytes of the moving rows.
            held: where they are.
            sizes: bytes of each file group that they leave.
        """
        work = sum(sizes) + len(sizes) * self.limits.opening_bytes
        if held is Place.TASKS and size <= self.brought_bytes and work <= self.limits.searched_bytes:
            place, reason = Place.DRIVER, "a job takes longer than to look for the few rows that move"
        else:
            place, reason = self._place(sizes, held)
        tasks = 0 if place is Place.DRIVER else self.parallelism.for_bytes(size)
        return self._told(Decision(Stage.RESOLVE, place, reason, int(tasks > 0), tasks, None, size, len(sizes)))

    def write(self, sizes: Collection[float], held: Place) -> Decision:
        """Who writes file groups.

        Args:
            sizes: bytes of each, with the rows that it gets.
            held: where the rows are.
        """
        place, reason = self._place(sizes, held)
        size = int(sum(sizes))
        tasks = 0 if place is Place.DRIVER else self.parallelism.for_bytes(size)
        return self._told(Decision(Stage.WRITE, place, reason, int(tasks > 0), tasks, None, size, len(sizes)))

    def write_load(self, sizes: Collection[float]) -> Decision:
        """How the file groups of a load are written, whose rows the tasks read from the request's files."""
        reason = "each task reads the rows of its file groups from the files of the request"
        tasks = self.parallelism.for_pieces(len(sizes))
        return self._told(Decision(Stage.WRITE, Place.TASKS, reason, 1, tasks, None, int(sum(sizes)), len(sizes)))

    def _place(self, sizes: Collection[float], held: Place) -> tuple[Place, str]:
        """Who works on file groups of some sizes in bytes, and why."""
        limits = self.limits
        if held is Place.TASKS:
            return Place.TASKS, "the rows are in tasks"
        if self.is_local:
            return Place.DRIVER, "tasks would run on the machine of the driver"
        most = limits.rewritten_bytes * self.resources.driver_threads
        if sum(sizes) > most:
            return Place.TASKS, f"the driver of a cluster rewrites up to {most} bytes"
        if len(sizes) <= limits.file_groups:
            return Place.DRIVER, f"jobs take longer than up to {limits.file_groups} small file groups"
        cores = self.parallelism.cores()
        saved = len(sizes) * (1 - limits.tasks_like_driver / cores)
        if saved <= limits.file_groups:
            return Place.DRIVER, f"jobs take longer than the work that {cores} tasks at a time would save"
        return Place.TASKS, f"{cores} tasks at a time write more than {limits.file_groups} small file groups sooner"

    @property
    def _row_bytes(self) -> int:
        """Up to how many bytes of rows suit the driver, as the user set it or by its heap."""
        if self.resources.set_bytes is not None:
            return self.resources.set_bytes
        return self.resources.heap_bytes // self.limits.heaps_of_rows

    @property
    def _result_bytes(self) -> int:
        return self.resources.result_bytes // self.limits.results_of_job

    def _told(self, decision: Decision) -> Decision:
        self.tell(decision)
        return decision
