"""Numbers of several bytes that begin anywhere in some content."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def words(content: NDArray[np.uint8], size: int) -> NDArray[np.unsignedinteger]:
    """The big-endian numbers that begin at each place of some content, as a view: taking some of them reads each once.

    Args:
        content: shape (n,), contiguous.
        size: bytes of a number: 1, 2, 4 or 8.

    Returns:
        Shape (n - size + 1,); empty if the content is shorter than a number.

    Example:
        >>> words(np.array([0, 1, 2], np.uint8), 2).tolist()
        [1, 258]
    """
    count = max(len(content) - size + 1, 0)
    return np.ndarray((count,), f">u{size}", content, strides=(1,)) if count else np.empty(0, f">u{size}")
