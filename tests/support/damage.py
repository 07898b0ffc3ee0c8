"""Damaged content: bytes that were changed, cut, repeated or inserted, read with little memory."""

from __future__ import annotations

import os
import random
import resource
from typing import Final

FUZZ_ROUNDS: Final = int(os.environ.get("RLI_FUZZ_ROUNDS", "300"))
"""Damaged versions of each file; each run draws others."""

_MEMORY: Final = 512 << 20
"""Bytes that a process may take beside what it has."""


def damaged(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[at : at + 1] = rng.randbytes(1)
            case 1:
                del changed[at : at + rng.randint(1, 8)]
            case 2:
                changed[at:at] = changed[at : at + 16]
            case _:
                changed[at:at] = rng.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0" * 8, b"[" * 50, b"\x80" * 9])
    return bytes(changed)


def limit_memory() -> None:
    """Let this process take half a gigabyte more, and nothing beyond."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
