"""Record keys as users give them, as one Arrow array; and beside other strings, to compare them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.arrow_arrays import one_array
from rli.arrow_tables import decoded
from rli.errors import InvalidInputError, InvalidKeyError

_SEPARATOR: Final = "\0"
"""Stands between strings that are joined; no name of a folder holds it, no file id, and no instant."""


def as_key_array(record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Record keys as one string array.

    Raises:
        InvalidKeyError: a key is null or not a string.
        InvalidInputError: one string is given instead of several, or something else than keys.
    """
    if isinstance(record_keys, str | bytes):
        raise InvalidInputError(f"record keys are a single string: keys={record_keys!r}", remedy="pass a list of keys")
    try:
        array = (
            record_keys if isinstance(record_keys, pa.Array | pa.ChunkedArray) else pa.array(record_keys, pa.string())
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise InvalidKeyError(f"a record key is no string ({error})", remedy="pass keys as strings") from error
    except TypeError as error:
        raise InvalidInputError(
            f"these are no record keys: type={type(record_keys).__name__}",
            remedy="pass a list of strings or an Arrow array",
        ) from error
    if isinstance(array, pa.ChunkedArray):
        array = one_array(array)
    if pa.types.is_dictionary(array.type):
        array = decoded(array)
    if not is_string(array.type):
        raise InvalidKeyError(f"record keys are no strings: type={array.type}", remedy="cast them to strings")
    if array.null_count:
        raise InvalidKeyError(f"{array.null_count} record keys are null", remedy="every look-up needs a key")
    return array.cast(pa.string()) if not pa.types.is_string(array.type) else array


def is_string(kind: pa.DataType) -> bool:
    """Whether the values of a type are strings."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def joined_strings(columns: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Each row as one string: a record key beside partition path, file id or instant, to be compared with other rows."""
    return pc.binary_join_element_wise(*columns, _SEPARATOR)
