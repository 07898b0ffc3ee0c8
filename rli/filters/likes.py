"""``like``: strings and patterns, in which ``%`` is any string and ``_`` any character."""

from __future__ import annotations

import sys
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.predicates import Column, Comparison, Constant, Predicate, all_of
from rli.filters.values import Value, applied

_ESCAPE: Final = "\\"
_FIRST_SURROGATE, _BEHIND_SURROGATES = 0xD800, 0xE000


def like(value: Value, pattern: Value, escape: Value | None = None) -> Predicate:
    """Whether a string has the form of a pattern: the whole of it, in the same letter case; null for null.

    Args:
        value: a string.
        pattern: a constant.
        escape: the character behind which ``%``, ``_`` and the character itself stand for themselves.

    Raises:
        ValueError: the pattern is no constant, or ends with the escape character.
    """
    if value.is_null or pattern.is_null:
        return Constant(None)
    if not (pa.types.is_string(value.kind) or pa.types.is_large_string(value.kind)):
        raise ValueError(f"'like' takes strings: type={value.kind}; write cast(x as string)")
    parts = _parts(_string("the pattern", pattern), _ESCAPE if escape is None else _escape(escape))
    prefix = _prefix(parts)
    matches = applied(pc.match_substring_regex, value, pattern=_regex(parts))
    computed = matches.predicate
    # Bounds of the column tell of its beginning.
    return all_of([*begins_with(value.columns[0], prefix, value.kind), computed]) if value.is_column else computed


def begins_with(column: Column, prefix: str, kind: pa.DataType) -> list[Comparison]:
    """Comparisons that are all true for the strings with a prefix, and only for these strings; null for null.

    An empty prefix gives no comparison. If no string is greater than all strings with the prefix, one comparison is enough.

    Args:
        column: of strings.
        prefix: of the strings.
        kind: type of the strings.
    """
    behind = successor(prefix)
    least = [Comparison(column, ">=", pa.scalar(prefix, kind))] if prefix else []
    return least if behind is None else [*least, Comparison(column, "<", pa.scalar(behind, kind))]


def successor(prefix: str) -> str | None:
    """The least string that is greater than all with a prefix, in the order of code points; None if there is none.

    Example:
        >>> successor("ab"), successor("")
        ('ac', None)
    """
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= sys.maxunicode:
            # Surrogates are no characters.
            return prefix[:-1] + chr(_BEHIND_SURROGATES if code == _FIRST_SURROGATE else code)
        prefix = prefix[:-1]
    return None


def _string(what: str, value: Value) -> str:
    text = None if value.constant is None else value.constant.as_py()
    if isinstance(text, str):
        return text
    raise ValueError(f"{what} of 'like' is a string in quotes")


def _escape(value: Value) -> str:
    text = _string("the escape character", value)
    if len(text) != 1:
        raise ValueError(f"the escape of 'like' is one character: escape={text!r}")
    return text


def _parts(pattern: str, escape: str) -> list[str | None]:
    """The characters of a pattern: "" for any string, None for any character."""
    parts: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise ValueError(f"a pattern of 'like' ends with its escape character: pattern={pattern!r}")
            # Before any other character the escape stands for itself.
            parts += [following] if following in ("%", "_", escape) else [escape, following]
        else:
            parts.append("" if character == "%" else None if character == "_" else character)
    return parts


def _prefix(parts: list[str | None]) -> str:
    """The characters with which each matching string begins."""
    found = ""
    for part in parts:
        if not part:
            break
        found += part
    return found


def _regex(parts: list[str | None]) -> str:
    pieces = ["." if part is None else f"\\x{{{ord(part):x}}}" if part else ".*" for part in parts]
    return rf"(?s)\A{''.join(pieces)}\z"
