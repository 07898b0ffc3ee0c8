"""JSON texts that hold records: one behind the other, on lines or not, or all of them in a list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def records_with_starts(decoder: json.JSONDecoder, text: str) -> Iterator[tuple[Any, int]]:
    """The records of a text, each with the position at which it begins.

    Raises:
        ValueError: the text is malformed from there on (``json.JSONDecodeError``, if it is no JSON).
    """
    start = _next(text, 0)
    if text[start : start + 1] == "[":
        yield from _elements(decoder, text, start + 1)
        return
    while start < len(text):
        record, end = decoder.raw_decode(text, start)
        yield record, start
        start = _next(text, end)


def _elements(decoder: json.JSONDecoder, text: str, start: int) -> Iterator[tuple[Any, int]]:
    position = _next(text, start)
    if text[position : position + 1] != "]":
        while True:
            record, end = decoder.raw_decode(text, position)
            yield record, position
            position = _next(text, end)
            if text[position : position + 1] != ",":
                break
            position = _next(text, position + 1)
    if text[position : position + 1] != "]":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
    rest = _next(text, position + 1)
    if rest < len(text):
        raise json.JSONDecodeError("Extra data", text, rest)


def _next(text: str, start: int) -> int:
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    return start
