"""The columns of a file slice that hold its record keys."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rli.hudi.key_generator import KeyGenerator


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

    @property
    def ordered_as_keys(self) -> str | None:
        """The column whose least and greatest values are those of the keys; None if there is no such column."""
        field = self.schema.field(0)
        return field.name if len(self.schema) == 1 and pa.types.is_string(field.type) else None

    def keys_of(self, batch: pa.Table) -> pa.Array:
        """The record keys (string array, shape (n,)) of a batch with these columns."""
        if self.generator is not None:
            return self.generator.record_keys(batch)
        return batch.column(0).combine_chunks()
