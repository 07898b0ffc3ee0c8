r"""Keys of entries of a secondary index, many at a time: the escaped value of the column, ``$``, the escaped record key.

``\`` stands before each ``\``, ``$`` and NUL; null is a NUL alone. Hudi 1.2 takes the value as Java prints it: a date as its days
and a moment as its microseconds since 1970. So only columns are indexed whose values Python and Java print alike.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_NULL: Final = "\0"
_SEPARATOR: Final = "$"
_UNSAFE: Final = r"([\\$\x00])"
_ESCAPED: Final = r"(?s)\\(.)"
_WITH_BACKSLASH: Final = r"\\\1"
_KEY: Final = r"(?s)\A((?:[^\\$]|\\.)*\$)(.*)\z"


def has_index_form(kind: pa.DataType) -> bool:
    """Whether values of a type can be in a secondary index that rli keeps.

    Example:
        >>> has_index_form(pa.string()), has_index_form(pa.float64())
        (True, False)
    """
    return (
        pa.types.is_string(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_date32(kind)
        or (pa.types.is_timestamp(kind) and kind.unit == "us")
    )


def index_form(values: pa.Array) -> pa.Array:
    """Values as the index prints them.

    Args:
        values: of a type that passes ``has_index_form``, shape (n,).

    Returns:
        String array, shape (n,); null for null.

    Example:
        >>> index_form(pa.array([-5, None], pa.int64())).to_pylist()
        ['-5', None]
    """
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    return values.cast(pa.string())


def entry_prefixes(values: pa.Array) -> pa.Array:
    r"""How the keys of values begin, up to the separator: no other value's keys begin so.

    Args:
        values: as ``index_form`` gives them.

    Returns:
        String array without nulls.

    Example:
        >>> entry_prefixes(pa.array(["a$b", ""])).to_pylist()
        ['a\\$b$', '$']
    """
    return pc.binary_join_element_wise(pc.fill_null(_escaped(values), _NULL), _SEPARATOR, "")


def begin_of_entries(prefix: str) -> bytes:
    r"""The beginning of the keys of all values with a prefix. No other keys have it, because each character is escaped by itself.

    Example:
        >>> begin_of_entries("a$")
        b'a\\$'
    """
    begin: bytes = _escaped(pa.array([prefix]))[0].as_py().encode()
    return begin


def entry_keys(values: pa.Array, record_keys: pa.Array) -> pa.Array:
    r"""The keys of entries.

    Args:
        values: as ``index_form`` gives them, shape (n,).
        record_keys: string array without nulls, shape (n,).

    Example:
        >>> entry_keys(pa.array(["a$b"]), pa.array(["k2"])).to_pylist()
        ['a\\$b$k2']
    """
    return pc.binary_join_element_wise(entry_prefixes(values), _escaped(record_keys), "")


def prefixes_of(keys: pa.Array) -> pa.Array:
    """How keys of entries begin, up to the separator; string array for a string or binary array of UTF-8."""
    return _part(keys, r"\1")


def record_keys_of(keys: pa.Array) -> pa.Array:
    """The record keys of entries; string array for a string or binary array of UTF-8."""
    return pc.replace_substring_regex(_part(keys, r"\2"), _ESCAPED, r"\1")


def range_of(prefix: bytes) -> tuple[bytes, bytes]:
    """The least key with a prefix, in UTF-8, and the least key behind all of these."""
    return prefix, prefix[:-1] + bytes([prefix[-1] + 1])


def _part(keys: pa.Array, group: str) -> pa.Array:
    return pc.replace_substring_regex(keys.cast(pa.string()), _KEY, group)


def _escaped(strings: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(strings, _UNSAFE, _WITH_BACKSLASH)
