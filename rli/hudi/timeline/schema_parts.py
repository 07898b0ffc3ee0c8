"""Parts of the Avro schemas that Hudi declares for the files of its timeline.

The property ``avro.java.string`` makes Java readers take texts as ``String``; Hudi's own files carry it.
"""

from __future__ import annotations

from typing import Any, Final

_NAMESPACE: Final = "org.apache.hudi.avro.model."
_JAVA: Final = {"avro.java.string": "String"}

Schema = dict[str, Any]

STRING: Final[Schema] = {"type": "string", **_JAVA}
STRINGS: Final[Schema] = {"type": "array", "items": STRING}
VERSION: Final[Schema] = {"name": "version", "type": ["int", "null"], "default": 1}


def array_of(items: object) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def map_of(values: object) -> Schema:
    """A map from texts."""
    return {"type": "map", "values": values, **_JAVA}


def optional(name: str, kind: object) -> Schema:
    """A field that may be null, and is so by default."""
    return {"name": name, "type": ["null", kind], "default": None}


def required(name: str, kind: object) -> Schema:
    """A field that always has a value."""
    return {"name": name, "type": kind}


def record(name: str, *fields: Schema) -> Schema:
    """A record in Hudi's name space."""
    return {"type": "record", "name": _NAMESPACE + name, "fields": list(fields)}
