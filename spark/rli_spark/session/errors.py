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


@contextmanager
def unwrapped_errors() -> Iterator[None]:
    """Raise the rli error that made a Spark job fail, with Spark's exception as its cause."""
    try:
        yield
    except _FAILURES as failure:
        raised = _RAISED.search(str(failure))
        kind = getattr(errors, raised[1], None) if raised else None
        if raised is None or not (isinstance(kind, type) and issubclass(kind, errors.RliError)):
            raise
        raise _restored(kind, raised[2]) from failure


def _restored(kind: type[errors.RliError], message: str) -> errors.RliError:
    """The error of a message: Spark hands on the text alone, and a conflict knows more than its text."""
    told = _CONFLICT.search(message)
    if told is None or not issubclass(kind, errors.ConflictError):
        return kind(message)
    keys, instants = (tuple(ast.literal_eval(told[name] or "[]")) for name in ("keys", "instants"))
    return kind(message, keys=keys, key_count=int(told["count"]), instants=instants)
