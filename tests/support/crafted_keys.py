"""Record keys of which somebody has chosen the hashes."""

from __future__ import annotations

import random
from itertools import count
from typing import Final

import numpy as np

from rli.codec.fingerprints import mixed

_CHARACTERS: Final = b"abcdefghijklmnopqrstuvwxyz0123456789"
_BYTES: Final = 16


def alike(seed: int) -> tuple[str, str]:
    """Two keys with the same fingerprint, and so with the same hashes: the second word undoes what the first one changes."""
    words = random.Random(seed)
    first = bytes(words.choice(_CHARACTERS) for _ in range(_BYTES))
    aim = _after(first[:8]) ^ _word(first[8:])
    for _ in count():
        begin = bytes(words.choice(_CHARACTERS) for _ in range(8))
        end = int(_after(begin) ^ aim).to_bytes(8, "little")
        if begin != first[:8] and all(32 < byte < 127 for byte in end):
            return first.decode(), (begin + end).decode()
    raise AssertionError


def _after(begin: bytes) -> np.uint64:
    return np.uint64(mixed(np.array([_BYTES], np.uint64), np.array([_word(begin)], np.uint64))[0])


def _word(part: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(part, "little"))
