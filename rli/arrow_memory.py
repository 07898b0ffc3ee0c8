"""Where Arrow's arrays lie: in memory of the C library, where that is faster than Arrow's own allocator."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import Final

import pyarrow as pa

_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"
"""Arrow's own environment variable: who sets it has chosen."""


@cache
def use_fast_memory() -> None:
    """Let this process, from the first call on, take memory for Arrow's arrays from the GNU C library, unless its user has chosen.

    mimalloc gives freed memory back to the system, and each batch that is decoded then faults its pages in again: decision 49.
    """
    if _VARIABLE not in os.environ and pa.default_memory_pool().backend_name == "mimalloc" and _has_gnu_library():
        pa.set_memory_pool(pa.system_memory_pool())


def _has_gnu_library() -> bool:
    with suppress(AttributeError, ValueError, OSError):
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    return False
