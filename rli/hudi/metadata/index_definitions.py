"""Definitions of the indexes in a metadata table: ``.hoodie/.index_defs/index.json``.

Hudi 1.0 and later write the file; 0.15 does not. The partitions ``files``, ``bloom_filters`` and ``partition_stats`` have no
definition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rli.errors import CorruptTableError
from rli.hudi.metadata.statistic_values import StatisticsVersion
from rli.hudi.properties import TableProperties
from rli.json_text import parse_json
from rli.storage import Storage

PATH_KEY: Final = "hoodie.table.index.defs.path"
"""Property of the table that names the file."""

DEFAULT_PATH: Final = ".hoodie/.index_defs/index.json"

_PARTITIONED: Final = "isPartitioned"
_SECONDARY: Final = "secondary_index"
_SECONDARY_FUNCTION: Final = "identity"
_SECONDARY_VERSION: Final = "V2"


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


def load_index_definitions(storage: Storage, properties: TableProperties) -> dict[str, IndexDefinition]:
    """The definitions by name; none if the table has no such file.

    Raises:
        CorruptTableError: the file is damaged; names it.
    """
    path = definitions_path(properties)
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
