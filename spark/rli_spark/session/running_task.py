"""The Spark task that code runs in."""

from __future__ import annotations

from threading import Lock
from typing import Final

from pyspark import TaskContext

from rli.arrow_memory import use_fast_memory
from rli_spark.session.loaded_objects import spare_loaded_objects
from rli_spark.session.logs import follow_in_task
from rli_spark.session.zip_directories import watch_zip_directories

_MOST_TASKS: Final = 1 << 16
"""Of a stage, and half as many file groups of a task: with more of them, some share a number."""

_NUMBERS: Final = 1 << 31
"""Hudi reads the first number of a token as a signed one of 32 bits."""


def begin_task() -> None:
    """Make a Python worker ready: tasks call it first."""
    watch_zip_directories()
    use_fast_memory()
    if TaskContext.get() is not None:
        spare_loaded_objects()
    follow_in_task()


def running_task() -> TaskContext:
    """The task; raises ``RuntimeError`` where none runs."""
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("this is done by Spark tasks only")
    return task


def attempt_token() -> str:
    """Tells the files of this attempt of the task from those of all other attempts, as Hudi's writers do."""
    return _token(running_task(), 0)


class FileGroupTokens:
    """Gives each file group that a task writes a token of its own, whose first number no other file group of the stage has.

    The sequence numbers of records begin with it: ``_hoodie_commit_seqno`` is unique in a commit.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._attempt = -1
        self._given = 0

    def next(self) -> str:
        """The token of one more file group; tells attempts apart as ``attempt_token`` does."""
        task = running_task()
        with self._lock:
            if self._attempt != task.taskAttemptId():
                self._attempt, self._given = task.taskAttemptId(), 0
            number, self._given = self._given, self._given + 1
        return _token(task, number)


FILE_GROUP_TOKENS: Final = FileGroupTokens()
"""Of this worker, which runs one task at a time."""


def _token(task: TaskContext, number: int) -> str:
    first = (task.partitionId() + number * _MOST_TASKS) % _NUMBERS
    return f"{first}-{task.stageId()}-{task.taskAttemptId()}"
