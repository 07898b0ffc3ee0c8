"""The order of keys, in which an HFile holds them: bytewise."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError


def check_order(keys: pa.Array, before: bytes | None = None) -> None:
    """Check that no key is null or less than the one before.

    Args:
        keys: binary.
        before: the key before the first; None if there is none.

    Raises:
        InvalidInputError: one is.
    """
    if keys.null_count:
        raise InvalidInputError("a key of an HFile is null", remedy="give each cell a key", row=_first(keys.is_null()))
    if not len(keys):
        return
    if before is not None and keys[0].as_py() < before:
        raise _out_of_order(0)
    less = pc.less(keys[1:], keys[:-1])
    if pc.any(less).as_py():
        raise _out_of_order(_first(less) + 1)


def _first(flags: pa.BooleanArray) -> int:
    return int(pc.index(flags, True).as_py())


def _out_of_order(row: int) -> InvalidInputError:
    return InvalidInputError(
        f"the keys of an HFile are out of order: row={row}", remedy="sort them bytewise before the call", row=row
    )
