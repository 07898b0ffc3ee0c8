"""Errors of executors, as they were before Spark wrapped them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException

from rli import errors

try:
    from py4j.protocol import Py4JError
except ImportError:
    # A client of Spark Connect has no JVM.
    _FAILURES: tuple[type[Exception], ...] = (PySparkException,)
else:
    _FAILURES = (PySparkException, Py4JError)

_CONFLICT: Final = re.compile(r"count=(?P<count>\d+) keys=(?P<keys>\[.*?\])(?: instants=(?P<instants>\[.*?\]))?; ")
_RAISED: Final = re.compile(r"^(?:\w+: )*rli(?:\.\w+)+\.(\w+): (.+)$", re.MULTILINE)


_LOST: Final = re.compile(
    r"(?P<lost>ExecutorLostFailure \(.+|Python worker exited unexpectedly.*|.*failed the maximum allowable number of times.*)"
)
"""How Spark says that an executor, a Python worker, or the shuffled rows of an executor were gone, the last time that it tried."""


@contextmanager
def unwrapped_errors() -> Iterator[None]:
    """Raise the rli error that made a Spark job fail, with Spark's exception as its cause.

    Raises:
        ExecutorLostError: Spark gave a task up, because the processes that ran it died.
    """
    try:
        yield
    except _FAILURES as failure:
        raised = _RAISED.search(str(failure))
        kind = getattr(errors, raised[1], None) if raised else None
        if raised is not None and isinstance(kind, type) and issubclass(kind, errors.RliError):
            raise _restored(kind, raised[2]) from failure
        lost = _LOST.search(str(failure))
        if lost is None:
            raise
        raise errors.ExecutorLostError(
            f"Spark gave a task up, because the processes that ran it died (nothing of a write is visible): {lost['lost'].strip()}",
            remedy=(
                "look for the reason in the executors' logs; if memory was short, raise spark.executor.memoryOverhead, which "
                "holds the Python workers, or spark.executor.memory, the heap of the JVM (exit code 52), and call again"
            ),
        ) from failure


def _restored(kind: type[errors.RliError], message: str) -> errors.RliError:
    """The error of a message: Spark hands on the text alone, and a conflict knows more than its text."""
    told = _CONFLICT.search(message)
    if told is None or not issubclass(kind, errors.ConflictError):
        return kind(message)
    keys, instants = (tuple(ast.literal_eval(told[name] or "[]")) for name in ("keys", "instants"))
    return kind(message, keys=keys, key_count=int(told["count"]), instants=instants)
