"""What a transaction of a write by condition is bound to: the condition and the values that it sets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pyarrow.compute as pc

from rli.filters.tuples import parse_tuples
from rli.view.caller_metadata import BoundRequest, CallerMetadata, ComparedBy


def bound_to_condition(caller: CallerMetadata, where: object, values: Mapping[str, str] | None) -> CallerMetadata:
    """What is kept with the commit; a transaction is bound to the hash of the condition and the values.

    Args:
        caller: what the caller gave.
        where: the condition.
        values: column → expression; None if records are deleted.

    Raises:
        SchemaError: the condition is none.
    """
    if caller.transaction is None:
        return caller
    verb = "delete_where" if values is None else "update_where"
    content = repr((_content(where), None if values is None else sorted(values.items())))
    hashes = int.from_bytes(hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return replace(caller, request=BoundRequest(verb, ComparedBy.CONDITION, 0, hashes))


def _content(where: object) -> str:
    """All that a condition says: printed expressions leave constants out."""
    if isinstance(where, str):
        return where
    expression = where if isinstance(where, pc.Expression) else parse_tuples(where).expression()
    _, (serialised,) = expression.__reduce__()
    return bytes(serialised).hex()
