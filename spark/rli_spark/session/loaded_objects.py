"""Spares Spark's Python workers a visit to every object of every loaded module after each task.

A worker collects garbage between two tasks. With pandas, Arrow and rli loaded that takes about a tenth of a second, more than a
look-up, and each worker then has its own copy of the memory that it shared with the process that forked it.
"""

from __future__ import annotations

import gc
import os
from functools import cache


def spare_loaded_objects() -> None:
    """Have collections leave out what is in memory at the first call in this process.

    Objects are freed as before when nothing refers to them. Only those of that moment that later refer to each other in a circle stay.
    """
    _spare(os.getpid())


@cache
def _spare(_process: int) -> None:
    # A fork knows what its parent has done, and has loaded other modules since.
    gc.collect()
    gc.freeze()
