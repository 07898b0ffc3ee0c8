"""The columns that an update by a condition sets, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.filters.value_expression import ValueExpression
from rli.hudi.meta_columns import with_meta_columns
from rli.hudi.schema import RESERVED_PREFIX
from rli.model import Scope

_META_PREFIX: Final = "_hoodie_"


def are_assignments(values: object) -> bool:
    """Whether a caller gives columns with expressions."""
    if not isinstance(values, Mapping) or not values:
        return False
    return all(isinstance(part, str) for pair in values.items() for part in pair)


def assigned_values(write: WriteBasis, values: Mapping[str, str], schema: pa.Schema) -> dict[str, ValueExpression]:
    """The values of columns that may be set.

    Args:
        write: the attempt.
        values: column → expression.
        schema: of the table's records.

    Raises:
        InvalidInputError: a column may not be set, or does not exist; or an expression is not understood or does not fit.
    """
    properties = write.table.properties
    full = with_meta_columns(schema)
    for name in values:
        if name.startswith((_META_PREFIX, RESERVED_PREFIX)):
            raise InvalidInputError(f"the column is Hudi's or rli's own: column={name}", remedy="set other columns")
        if name not in schema.names:
            raise InvalidInputError(
                f"the table has no such column to set: column={name} found={schema.names}", remedy="check the name"
            )
        if name in properties.record_key_fields:
            raise InvalidInputError(
                f"a record keeps its key: column={name}", remedy="delete the record, and insert it with its new key"
            )
    moved = [name for name in values if name in properties.partition_fields]
    if moved and write.index.scope is Scope.PARTITION:
        raise InvalidInputError(
            f"a key is unique in its partition, so that a record cannot move to another one: columns={moved} "
            f"index={write.index.url}",
            remedy="insert it there, and delete it here",
        )
    if moved and properties.ordering_field in values:
        raise InvalidInputError(
            "a partition column and the ordering column are set in one update: "
            f"columns={[*moved, properties.ordering_field]}",
            remedy="update one after the other",
        )
    return {name: ValueExpression.assigned(text, full, schema.field(name)) for name, text in values.items()}
