"""Change batches: rows that say what became of records, brought into one form: images of records, and which of them are deletes.

Three forms are known by the columns of the rows:

- an operation column beside the record's own columns; of Debezium's flattened events ``__op`` and ``__deleted``, of changes that were
  read from a table ``_change_type``;
- Hudi's mark ``_hoodie_is_deleted``, with or without an operation column;
- Debezium's envelope: ``before`` and ``after`` as structs, with ``op``, ``source`` and times beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.key_arrays import is_string
from rli.errors import InvalidInputError, SchemaError
from rli.hudi.meta_columns import IS_DELETED
from rli.reads.changes.images import CHANGE_COLUMNS, CHANGE_TYPE

OP: Final = "op"
"""Debezium's column of operations in an envelope."""

FLAT_OP: Final = "__op"
FLAT_DELETED: Final = "__deleted"
"""Columns of Debezium's flattened events."""

_WRITES: Final = frozenset({"c", "r", "i", "insert", "u", "update", "upsert", "update_after"})
DELETES: Final = frozenset({"d", "delete"})
_FORMER: Final = frozenset({"update_before"})
"""In changes read from a table: the former values of an update, whose new values have a row of their own."""

_TRUNCATES: Final = frozenset({"t", "truncate"})
_PLAIN: Final = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_FLAGS: Final = {"true": True, "false": False}
_SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a batch, each with the image of its record.

    Attributes:
        images: records; of a delete, key and ordering value count, and with partition scope the partition.
        deletes: which of them are deletes, shape (n,).
    """

    images: pa.Table
    deletes: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FlatForm:
    """Rows with the columns of records, and columns that say what became of them. Picklable.

    Attributes:
        op: column of operations; None if flags alone tell.
        flags: columns that are true in deletes.
        shown: columns that name a record in errors.
        others: columns that say more of a change.
    """

    op: str | None
    flags: tuple[str, ...]
    shown: tuple[str, ...]
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: pa.Schema, op: str | None, shown: tuple[str, ...]) -> FlatForm:
        """The form of rows of a schema.

        Args:
            schema: of the rows.
            op: the column of operations that the caller names.
            shown: columns that name a record.

        Raises:
            SchemaError: the rows lack the column, or it has no operations.
            InvalidInputError: no column tells what became of the records.
        """
        if op is None:
            op = next((name for name in (FLAT_OP, CHANGE_TYPE) if name in schema.names), None)
        flags = [IS_DELETED] if IS_DELETED in schema.names else []
        if op in {None, FLAT_OP} and FLAT_DELETED in schema.names:
            flags.append(FLAT_DELETED)
        if op is None and not flags:
            raise InvalidInputError(
                f"no column tells what became of the records: found={schema.names}",
                remedy="name the column of operations with op=",
            )
        if op is not None:
            require_operations(schema, op)
        others = [name for name in CHANGE_COLUMNS if name != op and name in schema.names] if op == CHANGE_TYPE else []
        return cls(op, tuple(flags), shown, tuple(others))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are none of the records."""
        return (*([] if self.op is None else [self.op]), *self.flags, *self.others)

    def changes(self, rows: pa.Table) -> Changes:
        """The changes of some rows.

        Raises:
            InvalidInputError: an operation is missing or unknown.
        """
        tombstones = all_null(rows, rows.column_names)
        rows = rows.filter(pa.array(~tombstones)) if tombstones.any() else rows
        deletes = np.zeros(rows.num_rows, dtype=bool)
        if self.op is not None:
            rows = _without_former(rows, self.op)
            shown = rows.select([name for name in self.shown if name in rows.column_names])
            deletes = deletes_in(rows, self.op, shown)
        for name in self.flags:
            deletes |= _flagged(rows, name)
        return Changes(rows, deletes)


def require_distinct(names: Sequence[str]) -> None:
    """Raise ``SchemaError`` if a column, or a field of an image, occurs twice."""
    if len(set(names)) < len(names):
        raise SchemaError(f"a column occurs twice: found={list(names)}", remedy="rename one, or drop it")


def require_operations(schema: pa.Schema, op: str) -> None:
    """Raise ``SchemaError`` if rows lack their column of operations, or if it is no text."""
    if op not in schema.names:
        raise SchemaError(
            f"the column of operations is missing: column={op} found={schema.names}", remedy="name a column with op="
        )
    kind = schema.field(op).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (is_string(kind) or pa.types.is_null(kind)):
        raise SchemaError(
            f"the column of operations has no strings: column={op} type={kind}", remedy="name another column with op="
        )


def _without_former(rows: pa.Table, op: str) -> pa.Table:
    operations = pc.utf8_lower(rows.column(op).cast(pa.string()))
    former = pc.is_in(operations, value_set=pa.array(sorted(_FORMER)))
    return rows.filter(pc.invert(former)) if pc.any(former).as_py() else rows


def deletes_in(rows: pa.Table, op: str, shown: pa.Table) -> NDArray[np.bool_]:
    """Which rows are deletes by their column of operations, shape (n,).

    Args:
        rows: the rows.
        op: the column.
        shown: values that name the record of each row in errors.

    Raises:
        InvalidInputError: an operation is missing or unknown.
    """
    codes = pc.dictionary_encode(rows.column(op).cast(pa.string()).combine_chunks(), null_encoding="encode")
    named = codes.dictionary.to_pylist()
    folded = ["" if name is None else name.casefold() for name in named]
    known = np.array([name in _WRITES or name in DELETES for name in folded], dtype=bool)
    positions = codes.indices.to_numpy()
    if not known.all():
        _refuse(op, [named[code] for code in np.flatnonzero(~known)], shown.filter(pa.array(~known[positions])))
    found: NDArray[np.bool_] = np.array([name in DELETES for name in folded], dtype=bool)[positions]
    return found


def without_views(rows: pa.Table) -> pa.Table:
    """The rows with strings and bytes in types that Arrow can filter, inside of structs and lists too."""
    schema = pa.schema([field.with_type(_plain(field.type)) for field in rows.schema])
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        wrap = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return wrap(kind.value_field.with_type(_plain(kind.value_type)))
    return _PLAIN.get(kind, kind)


def sample_of(rows: pa.Table) -> list[dict[str, object]]:
    """Some rows, for an error."""
    sample: list[dict[str, object]] = rows.slice(0, _SAMPLE).to_pylist()
    return sample


def _refuse(op: str, operations: Sequence[str | None], shown: pa.Table) -> None:
    if None in operations:
        problem, remedy = "rows have no operation", "give each row its operation, or leave the rows out"
    elif any(str(name).casefold() in _TRUNCATES for name in operations):
        problem = "a truncate is no change of a record"
        remedy = "merge the changes before it, delete the records of the table, and merge those behind it"
    else:
        problem, remedy = "rows have unknown operations", f"known are {sorted(_WRITES | DELETES)}, in any case"
    raise InvalidInputError(
        f"{problem}: column={op} operations={list(operations)} rows={shown.num_rows} sample={sample_of(shown)}",
        remedy=remedy,
    )


def _flagged(rows: pa.Table, name: str) -> NDArray[np.bool_]:
    column = rows.column(name).combine_chunks()
    if not (pa.types.is_boolean(column.type) or pa.types.is_null(column.type)):
        column = _truths(column, name)
    found: NDArray[np.bool_] = pc.fill_null(column.cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
    return found


def _truths(column: pa.Array, name: str) -> pa.Array:
    """Flags that are spelled as text, as Debezium does."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if name == IS_DELETED or not is_string(kind):
        raise SchemaError(
            f"the column that marks deletes is not boolean: column={name} type={kind}", remedy="cast it to boolean"
        )
    codes = pc.dictionary_encode(column.cast(pa.string()))
    unknown = [text for text in codes.dictionary.to_pylist() if text.casefold() not in _FLAGS]
    if unknown:
        raise InvalidInputError(
            f"flags of deletes are neither true nor false: column={name} values={unknown[:_SAMPLE]}",
            remedy="correct them",
        )
    truths = pa.array([_FLAGS[text.casefold()] for text in codes.dictionary.to_pylist()], pa.bool_())
    return truths.take(codes.indices)


def all_null(rows: pa.Table, names: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows have no value in any of some columns, shape (n,)."""
    found = np.ones(rows.num_rows, dtype=bool)
    for name in names:
        found &= rows.column(name).is_null().combine_chunks().to_numpy(zero_copy_only=False)
    return found
