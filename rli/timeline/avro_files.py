"""Avro container files of one record, in which the timeline keeps plans and results."""

from __future__ import annotations

import io
from typing import Any, Final

import fastavro

from rli.timeline.schema_parts import Schema

MALFORMED: Final = (ValueError, TypeError, KeyError, AttributeError, EOFError, IndexError, StopIteration)
"""What reading a file that is no such container, or holds something else, may raise."""


def write_record(schema: Schema, record: dict[str, Any]) -> bytes:
    """A file that holds this record."""
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [record])
    return buffer.getvalue()


def read_record(content: bytes) -> Any:
    """The record; raises one of ``MALFORMED`` if the content holds not exactly one."""
    (record,) = fastavro.reader(io.BytesIO(content))
    return record
