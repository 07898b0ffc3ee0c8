"""Definitions of the indexes in a metadata table: ``.hoodie/.index_defs/index.json``.

Hudi 1.0 and later write the file; 0.15 does not. The partitions ``files``, ``bloom_filters`` and ``partition_stats`` have no
definition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rli.errors import CorruptTableError
from rli.filters.syntax import Call, Literal, Name, parsed, quoted_name
from rli.hudi.metadata.partitions import is_own
from rli.hudi.metadata.statistic_values import StatisticsVersion
from rli.hudi.properties import TableProperties
from rli.json_text import parse_json
from rli.storage import Storage

PATH_KEY: Final = "hoodie.table.index.defs.path"
"""Property of the table that names the file."""

DEFAULT_PATH: Final = ".hoodie/.index_defs/index.json"

OWN_PATH: Final = ".hoodie/.rli/index_definitions.json"
"""The definitions of the indexes that Hudi does not know, in the same form."""

_PARTITIONED: Final = "isPartitioned"
_SECONDARY: Final = "secondary_index"
_SECONDARY_FUNCTION: Final = "identity"
_SECONDARY_VERSION: Final = "V2"
_EXPRESSION_VERSION: Final = "V2"
_EXPRESSION: Final = "expression"
"""Option of an index that Hudi does not know: the expression in the grammar of filters."""

TYPE_OPTION: Final = "type"
"""Option of such an index: the type of the expression's values."""

_FUNCTION: Final = "expr"
"""Hudi's option with the name of the function."""

_OF_FILTERS: Final = ("filtertype", "numentries", "fpp", "maxentries")
_PATTERN: Final = (("format", str),)
_FUNCTIONS: Final[Mapping[str, tuple[tuple[str, type[int | str]], ...]]] = {
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim", "length", "year", "month", "day", "hour"), ()),
    "from_unixtime": _PATTERN,
    "date_format": _PATTERN,
    "substring": (("pos", int), ("len", int)),
}
"""Functions that Hudi and rli have → the options with their further arguments, in order."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """One index of the metadata table.

    Attributes:
        name: of the index, which is the partition's name.
        kind: ``column_stats``, ``record_index``, ``secondary_index``, ``bloom_filters`` or another one of Hudi's.
        function: applied to the columns, such as ``identity`` or ``lower``; "" for none.
        columns: that are indexed.
        options: of the index.
        version: of its records: ``V1`` or ``V2``.
    """

    name: str
    kind: str
    function: str = ""
    columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    version: str = StatisticsVersion.V1.value

    @property
    def is_partitioned(self) -> bool:
        """True for a record index that has file groups of its own for each partition of the table."""
        return self.options.get(_PARTITIONED) == "true"


def secondary_index(partition: str, column: str) -> IndexDefinition:
    """The definition of a secondary index in the form of Hudi 1.1 and later, which places entries by their values alone.

    Args:
        partition: of the metadata table.
        column: that is indexed.
    """
    return IndexDefinition(partition, _SECONDARY, _SECONDARY_FUNCTION, (column,), version=_SECONDARY_VERSION)


def indexed_column(definition: IndexDefinition | None) -> str | None:
    """The column of a secondary index in this form; None for other indexes, as of Hudi 1.0."""
    if definition is None or (definition.kind, definition.version) != (_SECONDARY, _SECONDARY_VERSION):
        return None
    return definition.columns[0] if len(definition.columns) == 1 else None


def own_index_of_expression(partition: str, column: str, using: str, text: str, kind: str) -> IndexDefinition:
    """The definition of an index on an expression that Hudi does not know.

    Args:
        partition: of the metadata table.
        column: that the expression reads.
        using: ``column_stats`` or ``bloom_filters``.
        text: of the expression.
        kind: the type of its values.
    """
    options = {_EXPRESSION: text, TYPE_OPTION: kind}
    return IndexDefinition(partition, using, "", (column,), options, _EXPRESSION_VERSION)


def index_of_expression(partition: str, column: str, using: str, form: Sequence[str]) -> IndexDefinition:
    """The definition of an index on an expression that Hudi knows.

    Args:
        partition: of the metadata table.
        column: that the expression reads.
        using: as for ``own_index_of_expression``.
        form: as ``hudi_form`` gives it.
    """
    function, *arguments = form
    options = dict(zip((name for name, _ in _FUNCTIONS[function]), arguments, strict=True))
    return IndexDefinition(partition, using, function, (column,), {_FUNCTION: function, **options}, _EXPRESSION_VERSION)


def hudi_form(text: str, column: str) -> list[str] | None:
    """Hudi's name of the function of an expression, and its arguments behind the column; None if Hudi has no such index.

    Example:
        >>> hudi_form("from_unixtime(ts, 'yyyy')", "ts"), hudi_form("ts + 1", "ts")
        (['from_unixtime', 'yyyy'], None)
    """
    match parsed(text):
        case Call(function, (Name((name,)), *others)) if name == column and function in _FUNCTIONS:
            kinds = [kind for _, kind in _FUNCTIONS[function]]
            values = [other.value if isinstance(other, Literal) else None for other in others]
            if [type(value) for value in values] == kinds:
                return [function, *map(str, values)]
    return None


def expression_of(definition: IndexDefinition | None) -> str | None:
    """The expression of an index on one, in the grammar of filters; None if rli has no such function."""
    if definition is None or len(definition.columns) != 1:
        return None
    if is_own(definition.name):
        return definition.options.get(_EXPRESSION)
    column = quoted_name(definition.columns[0])
    form = _FUNCTIONS.get(definition.function)
    known = {_FUNCTION, *_OF_FILTERS, *(option for option, _ in form or ())}
    if form is None or not known.issuperset(definition.options):
        return None
    try:
        arguments = [_argument(kind, definition.options[option]) for option, kind in form]
    except (LookupError, ValueError):
        return None
    return f"{definition.function}({', '.join([column, *arguments])})"


def _argument(kind: type[int | str], option: str) -> str:
    return str(int(option)) if kind is int else "'" + option.replace("'", "''") + "'"


def load_index_definitions(storage: Storage, properties: TableProperties) -> dict[str, IndexDefinition]:
    """The definitions by name; none if the table has no such file.

    Raises:
        CorruptTableError: the file is damaged; names it.
    """
    has_own = any(map(is_own, properties.all_metadata_partitions))
    own = definitions_at(storage, OWN_PATH) if has_own else {}
    return {**own, **definitions_at(storage, definitions_path(properties))}


def definitions_at(storage: Storage, path: str) -> dict[str, IndexDefinition]:
    """The definitions in a file by name; none if there is no such file; raises as ``load_index_definitions``."""
    content = storage.read_bytes(path)
    if content is None:
        return {}
    try:
        found = parse_json(content)["indexDefinitions"]
        return {name: _parsed(name, definition) for name, definition in found.items()}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CorruptTableError(
            f"the definitions of indexes cannot be read: file={path} ({type(error).__name__}: {error})",
            remedy="restore the file from a backup, or drop the table's indexes and let them be built anew",
        ) from error


def format_index_definitions(definitions: Iterable[IndexDefinition]) -> bytes:
    """The content of the file."""
    formatted = {
        definition.name: {
            "indexName": definition.name,
            "indexType": definition.kind,
            "indexFunction": definition.function,
            "sourceFields": list(definition.columns),
            "indexOptions": dict(definition.options),
            "version": definition.version,
        }
        for definition in definitions
    }
    return json.dumps({"indexDefinitions": formatted}, ensure_ascii=False, indent=2).encode()


def definitions_path(properties: TableProperties) -> str:
    """The file, relative to the table."""
    return properties.raw.get(PATH_KEY) or DEFAULT_PATH


def _parsed(name: str, definition: Mapping[str, Any]) -> IndexDefinition:
    columns = definition.get("sourceFields") or ()
    options = definition.get("indexOptions") or {}
    version = definition.get("version") or StatisticsVersion.V1.value
    if not all(isinstance(column, str) for column in columns):
        raise TypeError(f"an index of the name {name!r} has columns that are no strings")
    return IndexDefinition(
        name,
        str(definition["indexType"]),
        str(definition.get("indexFunction") or ""),
        tuple(columns),
        dict(options),
        version,
    )
