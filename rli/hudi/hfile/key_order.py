"""The order of keys, in which an HFile holds them: bytewise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError


def check_order(keys: pa.Array, before: bytes | None = None, starts: Sequence[int] = ()) -> None:
    """Check that no key is null or less than the one before.

    Args:
        keys: binary.
        before: the key before the first; None if there is none.
        starts: rows from 1, and the number of rows, from which on the keys of another file begin, in an order of their own.

    Raises:
        InvalidInputError: one is.
    """
    if keys.null_count:
        raise InvalidInputError("a key of an HFile is null", remedy="give each cell a key", row=_first(keys.is_null()))
    if not len(keys):
        return
    if before is not None and keys[0].as_py() < before:
        raise _out_of_order(0)
    is_less = np.append(pc.less(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False), False)
    is_less[np.array(starts, np.intp) - 1] = False
    if is_less.any():
        raise _out_of_order(int(is_less.argmax()) + 1)


def _first(flags: pa.BooleanArray) -> int:
    return int(pc.index(flags, True).as_py())


def _out_of_order(row: int) -> InvalidInputError:
    return InvalidInputError(
        f"the keys of an HFile are out of order: row={row}", remedy="sort them bytewise before the call", row=row
    )
