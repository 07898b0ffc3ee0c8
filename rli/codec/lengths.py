"""Strings of equal length as byte matrices, so that work on them can be done on whole arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.intp]

_AS_THEY_ARE: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
"""Types of which a single value tells its bytes."""


def by_length(strings: pa.Array, most_bytes: int | None = None) -> Iterator[tuple[Positions, Matrix]]:
    """Positions of the strings of each length, and their UTF-8 bytes: shape (count, length), read-only. Nulls are left out.

    Args:
        strings: string array, shape (n,).
        most_bytes: cut the strings of one length into several matrices of about this size.
    """
    if len(strings) == 1 and strings.type in _AS_THEY_ARE and (content := strings[0].as_buffer()):
        # Neither a null nor empty. A look-up of one key would wait for the arrays below longer than for its hash.
        only = np.frombuffer(content, np.uint8).reshape(1, -1)
        only.flags.writeable = False
        yield np.zeros(1, np.intp), only
        return
    array = strings.cast(pa.large_binary())
    if not len(array):
        return
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    # NumPy may write into buffers of pyarrow, and these are the caller's strings.
    data.flags.writeable = False
    lengths = np.diff(offsets)
    if not array.null_count and (lengths == lengths[0]).all():
        length = int(lengths[0])
        matrix = data[offsets[0] : offsets[-1]].reshape(len(array), length)
        step = len(array) if most_bytes is None else max(1, most_bytes // max(length, 1))
        for start in range(0, len(array), step):
            positions = np.arange(start, min(start + step, len(array)))
            yield positions, matrix[start : start + step]
        return
    valid = np.flatnonzero(np.asarray(array.is_valid()))
    order = valid[np.argsort(lengths[valid], kind="stable")]
    for alike in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        if not len(alike):
            continue
        length = int(lengths[alike[0]])
        step = len(alike) if most_bytes is None else max(1, most_bytes // max(length, 1))
        for start in range(0, len(alike), step):
            positions = alike[start : start + step]
            if length:
                yield positions, np.lib.stride_tricks.sliding_window_view(data, length)[offsets[positions]]
            else:
                yield positions, np.empty((len(positions), 0), np.uint8)
