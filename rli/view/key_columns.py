"""The columns of a file slice that hold its record keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from rli.arrow_arrays import one_array
from rli.errors import UnsupportedTableError
from rli.hudi.key_generator import KeyGenerator
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.properties import KeyGeneratorKind, TableProperties
from rli.view.definition import TableDefinition

_PLAIN_KEYS: Final = (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.NONPARTITIONED)
"""Kinds of generators that take the text of a single record-key column as it is."""


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Where the record keys of a file slice stand. Picklable.

    Attributes:
        schema: of the columns to read.
        generator: forms keys of them; None if the only column holds the keys themselves.
        copies: columns of the records that hold the keys too, so that they need not be read.
    """

    schema: pa.Schema
    generator: KeyGenerator | None
    copies: frozenset[str]

    @classmethod
    def of(cls, table: TableDefinition, schema: Callable[[], pa.Schema | None], stored: pa.Schema) -> KeyColumns:
        """Where the record keys stand in a file that is stored with a schema.

        Args:
            table: of the file.
            schema: tells that of the table's records, where it is needed.
            stored: of the file's records.

        Raises:
            UnsupportedTableError: the table keeps no meta columns and its keys cannot be formed again.
        """
        properties = table.properties
        # Tables without meta fields may have the meta columns all the same, holding nulls.
        if properties.populate_meta_fields and RECORD_KEY in stored.names:
            return cls(pa.schema([pa.field(RECORD_KEY, pa.string())]), None, _copies_of_keys(properties, stored))
        records = schema() if properties.record_key_fields else None
        if records is None:
            raise UnsupportedTableError(
                f"the table has neither meta columns nor record-key fields: table={table.location}",
                remedy="an index needs one of them",
            )
        fields = [records.field(name) for name in properties.record_key_fields]
        return cls(pa.schema(fields), table.key_generator, frozenset())

    def within(self, schema: pa.Schema) -> KeyColumns:
        """The same keys, from a column of a schema if one of its columns holds them: then no other column is read."""
        copy = next((one for one in schema if one.name in self.copies and pa.types.is_string(one.type)), None)
        return self if copy is None else replace(self, schema=pa.schema([copy]))

    @property
    def ordered_as_keys(self) -> str | None:
        """The column whose least and greatest values are those of the keys; None if there is no such column."""
        field = self.schema.field(0)
        return field.name if len(self.schema) == 1 and pa.types.is_string(field.type) else None

    def keys_of(self, batch: pa.Table) -> pa.Array:
        """The record keys (string array, shape (n,)) of a batch with these columns."""
        if self.generator is not None:
            return self.generator.record_keys(batch)
        return one_array(batch.column(0))


META_KEYS: Final = KeyColumns(pa.schema([pa.field(RECORD_KEY, pa.string())]), None, frozenset([RECORD_KEY]))
"""In slices with meta columns, as all are that rli writes to."""


def _copies_of_keys(properties: TableProperties, stored: pa.Schema) -> frozenset[str]:
    fields, kind = properties.record_key_fields, properties.key_generator
    # Other generators form keys of a single text in ways that differ from release to release.
    if len(fields) != 1 or kind not in _PLAIN_KEYS or fields[0] not in stored.names:
        return frozenset([RECORD_KEY])
    return frozenset([RECORD_KEY, fields[0]] if pa.types.is_string(stored.field(fields[0]).type) else [RECORD_KEY])
