"""Errors of executors, as they were before Spark wrapped them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rli import errors

_RAISED: Final = re.compile(r"^(?:\w+: )*rli\.errors\.(\w+): (.+)$", re.MULTILINE)


@contextmanager
def unwrapped_errors() -> Iterator[None]:
    """Raise the rli error that made a Spark job fail, with Spark's exception as its cause."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raised = _RAISED.search(str(failure))
        kind = getattr(errors, raised[1], None) if raised else None
        if raised is None or not (isinstance(kind, type) and issubclass(kind, errors.RliError)):
            raise
        raise kind(raised[2]) from failure
