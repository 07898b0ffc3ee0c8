"""The values of some key columns, out of the text of record keys: what Hudi's bucket indexes hash.

A table with one key column has bare values for keys. Several columns make ``a:1,b:2``, with ``__null__`` and
``__empty__`` for null and empty values (``rli.hudi.key_generator``). Source: ``KeyGenUtils.extractRecordKeysByFields`` of
Hudi 1.2.0, whose answers tests compare, for keys too whose values hold ``,`` and ``:`` themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.hudi.key_generator import EMPTY_PART, NULL_PART

_VALUE: Final = "[^,]*(?:,[^,:]*)*"
"""A value goes to the last comma before the next column's colon; colons before its first comma are its own."""


def hash_values(record_keys: pa.Array, fields: Sequence[str], key_fields: Sequence[str]) -> pa.ListArray:
    """The values that are hashed for each record key: those of some key columns, in the order of the key.

    Args:
        record_keys: string array, shape (n,), without nulls.
        fields: the columns whose values are hashed, of the key columns.
        key_fields: the columns of the record key.

    Returns:
        Array of lists of strings, shape (n,), with null for a null value. A key that has none of the columns in it, such
        as one of a single column, has itself for its value.
    """
    if len(key_fields) == 1:
        odd = pc.and_(
            pc.match_substring(record_keys, ","), pc.match_substring_regex(record_keys, f"(^|,){_escaped(fields[0])}:")
        )
        return _with_odd(_lists([record_keys]), odd, record_keys, fields)
    pattern = ",".join(f"{_escaped(name)}:(?P<v{number}>{_VALUE})" for number, name in enumerate(key_fields))
    found = pc.extract_regex(record_keys, f"^{pattern}$")
    columns = [found.field(number) for number, name in enumerate(key_fields) if name in fields]
    return _with_odd(_lists([_named(column) for column in columns]), pc.is_null(found), record_keys, fields)


def _escaped(name: str) -> str:
    return re.escape(name) if name.isascii() else "".join(re.escape(char) if char.isascii() else char for char in name)


def _named(values: pa.Array) -> pa.Array:
    """Values as they were before they were written into a key."""
    filled = pc.if_else(pc.equal(values, EMPTY_PART), "", values)
    return pc.if_else(pc.equal(values, NULL_PART), pa.scalar(None, pa.string()), filled)


def _lists(columns: Sequence[pa.Array]) -> pa.ListArray:
    count, width = len(columns[0]), len(columns)
    offsets = pa.array(np.arange(0, width * count + 1, width, dtype=np.int32))
    if width == 1:
        return pa.ListArray.from_arrays(offsets, columns[0])
    order = np.arange(width * count).reshape(width, count).T.ravel()
    return pa.ListArray.from_arrays(offsets, pa.concat_arrays(columns).take(pa.array(order)))


def _with_odd(lists: pa.ListArray, odd: pa.Array, record_keys: pa.Array, fields: Sequence[str]) -> pa.ListArray:
    """Lists with those of odd keys in their place, which are parsed one by one."""
    if not pc.any(odd).as_py():
        return lists
    rows = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    parsed = [_parsed(key, fields) for key in record_keys.take(pa.array(rows)).to_pylist()]
    order = np.arange(len(lists))
    order[rows] = len(lists) + np.arange(len(rows))
    return pa.concat_arrays([lists, pa.array(parsed, lists.type)]).take(pa.array(order))


def _parsed(key: str, fields: Sequence[str]) -> list[str | None]:
    """The values of a key as Hudi takes it apart, which any text may be."""
    if "," not in key or ":" not in key:
        return [key]
    values = list[str | None]()
    start = 0
    while start < len(key):
        colon = key.find(":", start)
        name, end = key[start:colon], _end_of_value(key, colon)
        if name in fields:
            value = key[colon + 1 : end]
            values.append(None if value == NULL_PART else "" if value == EMPTY_PART else value)
        start = end + 1
    return values or [key]


def _end_of_value(key: str, colon: int) -> int:
    """Where the value behind a colon ends: at the last comma before the first colon behind a comma, if there is one."""
    comma = key.find(",", colon)
    following = key.find(":", comma) if comma >= 0 else -1
    return key.rfind(",", colon, following) if following >= 0 else len(key)
