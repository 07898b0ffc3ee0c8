"""Fingerprints: 64-bit hashes of encoded keys, computed on whole arrays, to compare sets of keys by sums."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.codec.encoded_keys import as_words

_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)


def fingerprints(keys: NDArray[np.void]) -> NDArray[np.uint64]:
    """A 64-bit hash of each encoded key (shape (n,), of one width); no protection against chosen keys."""
    hashes = np.full(len(keys), keys.dtype.itemsize, np.uint64)
    for word in as_words(keys, "<u8").T:
        hashes = mixed(hashes, word)
    return hashes * _MIXER


def mixed(hashes: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each hash with one more word (both shape (n,)) in it."""
    mixing = (hashes ^ words) * _MIXER
    mixing ^= mixing >> _SHIFT
    return mixing
