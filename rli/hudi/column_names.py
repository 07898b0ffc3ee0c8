"""Names of columns and of struct fields that every reader of a table can hold.

Names are held to the Avro specification (ASCII letters, digits, ``_``, no digit first). Hudi's writers refuse any name
with other signs, and of the letters that Java would accept beyond that hudi-rs refuses all. Spark and Hive ignore letter
case, so two names of one level that differ in letter case alone cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from rli.errors import SchemaError

_ALLOWED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIRST: Final = re.compile(r"[A-Za-z_]")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_]")


def require_names(schema: pa.Schema) -> None:
    """Check the names of all columns and of all struct fields inside of them.

    Args:
        schema: of a table's records.

    Raises:
        SchemaError: a name has other signs, or two names of one level are equal but for letter case; names the column.
    """
    _require_level(schema, "")


def require_name(name: str, path: str) -> None:
    """Check the name of a column or a struct field.

    Args:
        name: of the field alone.
        path: of the field from the column on, for messages.

    Raises:
        SchemaError: the name has signs that a table cannot hold.
    """
    if not _ALLOWED.fullmatch(name):
        simple = simple_name(name)
        raise SchemaError(
            f"a column has a name that Hudi cannot hold, only ASCII letters, digits and _ are allowed: column={path!r}",
            remedy=f"rename it, for example to {simple if simple.strip('_') else 'column'!r}",
        )


def simple_name(name: str) -> str:
    """A name in the form ``domain_name``, which every table can hold."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = re.sub(r"[^A-Za-z0-9]+", "_", spaced).strip("_").lower()
    return words if _ALLOWED.fullmatch(words) else f"_{words}"


def sanitised(name: str) -> str:
    """The name with ``__`` for each sign that is not allowed, as Hudi forms the names of its schemas."""
    return _INVALID.sub("__", name if _FIRST.match(name) else "__" + name[1:])


def require_distinct(names: Iterable[str], above: str = "") -> None:
    """Check that no two names of one level are equal but for letter case.

    Args:
        names: of the fields of a struct, or of the columns.
        above: path of the struct; empty for columns.

    Raises:
        SchemaError: two are equal.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.casefold())
        if other is not None:
            raise SchemaError(
                f"a column occurs twice (letter case does not count): column={below(above, name)} "
                f"other={below(above, other)}",
                remedy="rename one",
            )
        seen[name.casefold()] = name


def below(path: str, name: str) -> str:
    """The path of a field inside of a column or struct."""
    return f"{path}.{name}" if path else name


def _require_level(fields: Iterable[pa.Field], above: str) -> None:
    fields = list(fields)
    require_distinct([field.name for field in fields], above)
    for field in fields:
        path = below(above, field.name)
        require_name(field.name, path)
        _require_inside(field.type, path)


def _require_inside(kind: pa.DataType, path: str) -> None:
    if pa.types.is_struct(kind):
        _require_level(kind, path)
    elif pa.types.is_map(kind):
        _require_inside(kind.item_type, f"{path}.value")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        _require_inside(kind.value_type, f"{path}.element")
