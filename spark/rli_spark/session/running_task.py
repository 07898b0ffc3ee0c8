"""The Spark task that code runs in."""

from __future__ import annotations

from pyspark import TaskContext

from rli.arrow_memory import use_fast_memory
from rli_spark.session.loaded_objects import spare_loaded_objects
from rli_spark.session.logs import follow_in_task
from rli_spark.session.zip_directories import watch_zip_directories


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
    task = running_task()
    return f"{task.partitionId()}-{task.stageId()}-{task.taskAttemptId()}"
