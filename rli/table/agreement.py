"""Does a table that exists agree with what a caller would have created?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rli.errors import SettingsError
from rli.hudi.lock_settings import chosen_lock, lock_properties
from rli.hudi.schema import written_schema
from rli.index.any_index import facts_of
from rli.index.registry import index_kind
from rli.model import LeasePlace
from rli.settings import TableSettings
from rli.table.options import OF_INDEX, TableOptions, given_settings, wanted_partitions, wanted_type
from rli.table.table import Table, opened_table
from rli.urls import without_password, without_secrets


@dataclass(frozen=True, slots=True)
class Wanted:
    """A table as ``create_table`` was asked for it. None, or a missing option: the caller does not say.

    Attributes:
        record_key, partition_by: columns.
        ordering: column; None if the later write wins.
        index: store URL.
        name: of the table.
        schema: of the records.
        options: those that were given.
    """

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: str | None
    index: str | None
    name: str | None
    schema: pa.Schema | None
    options: TableOptions

    def require(self, table: Table) -> None:
        """Pass a table that agrees with all that the caller says.

        Raises:
            SettingsError: it does not; names each argument that differs.
            SchemaError: a column of the schema has a type that no table can hold.
            IndexNotReadyError: the table has no index of rli.
        """
        differing = [
            f"{name}={_shown(found)} (given {_shown(given)})"
            for name, given, found in self._compared(table)
            if given != found
        ]
        if differing:
            raise SettingsError(
                f"the table exists and differs from the arguments: table={table.location} {' '.join(differing)}",
                remedy="give what the table has, or open the table as it is",
            )

    def _compared(self, table: Table) -> Iterator[tuple[str, object, object]]:
        """Argument, what is given, what the table has."""
        properties = opened_table(table).definition.properties
        yield "record_key", self.record_key, properties.record_key_fields
        yield "partition_by", self.partition_by, properties.partition_fields
        yield "ordering", self.ordering, properties.ordering_field
        if self.name is not None:
            yield "name", self.name, properties.name
        if "hive_style" in self.options:
            yield "hive_style", self.options["hive_style"], properties.hive_style
        if "url_encode_partitions" in self.options:
            yield "url_encode_partitions", self.options["url_encode_partitions"], properties.url_encode
        if "table_type" in self.options:
            yield "table_type", wanted_type(self.options).lower(), properties.table_type.lower()
        if "metadata" in self.options:
            yield "metadata", *self._partitions(table)
        if "lock" in self.options:
            yield "lock", chosen_lock(lock_properties(self.options["lock"])), chosen_lock(properties.raw)
        yield from self._compared_settings(table.settings)
        yield from self._compared_schema(table.schema if self.schema is not None else None)
        if any(self.options.get(name) is not None for name in OF_INDEX):
            yield from self._compared_index(table)

    def _partitions(self, table: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Partitions of the metadata table: those that are wanted, and which of them are there; all, if none are wanted."""
        opened = opened_table(table)
        properties, wanted = opened.definition.properties, wanted_partitions(self.options, opened.definition.index_url)
        if wanted is None:
            return (), properties.metadata_partitions
        kinds = tuple(map(str, wanted.kinds(properties.version)))
        return kinds, tuple(kind for kind in kinds if kind in properties.metadata_partitions)

    def _compared_settings(self, settings: TableSettings) -> Iterator[tuple[str, object, object]]:
        # Where each host has an index of its own, the table names only one of them.
        if self.index is not None and not (
            settings.lease is LeasePlace.TABLE and index_kind(settings.index_url).has_store
        ):
            given, found = without_secrets(self.index), settings.index_url
            yield "index", without_password(given), without_password(found)
        kept: dict[str, Any] = {name: getattr(settings, name) for name in TableSettings.model_fields}
        wanted = TableSettings.of(**{**kept, **given_settings(self.options)})
        for name in TableSettings.model_fields:
            yield name, getattr(wanted, name), kept[name]

    def _compared_schema(self, found: pa.Schema | None) -> Iterator[tuple[str, object, object]]:
        if self.schema is None or found is None:
            return
        for field in written_schema(self.schema):
            at = found.get_field_index(field.name)
            yield f"schema.{field.name}", str(field.type), None if at < 0 else str(found.field(at).type)

    def _compared_index(self, table: Table) -> Iterator[tuple[str, object, object]]:
        facts = facts_of(opened_table(table).index)
        if self.options.get("shards") is not None:
            yield "shards", self.options["shards"], facts.shards
        if "key_mode" in self.options:
            yield "key_mode", str(self.options["key_mode"]), facts.key_mode


def _shown(value: object) -> str:
    """An argument as users of the library and of the command line write it."""
    if value is None or value == ():
        return "none"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
