"""Debezium's envelope: the images of a record before and after a change, with the operation and its times beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.key_arrays import is_string
from rli.errors import InvalidInputError, SchemaError
from rli.write.rows.change_batches import (
    OP,
    Changes,
    all_null,
    deletes_in,
    require_distinct,
    require_operations,
    sample_of,
)

_BEFORE: Final = "before"
_AFTER: Final = "after"
_SOURCE: Final = "source"
_PAYLOAD: Final = "payload"
_COLUMNS: Final = frozenset({_BEFORE, _AFTER, _SOURCE, OP, "ts_ms", "ts_us", "ts_ns", "transaction"})
_WITH_SCHEMA: Final = ({_PAYLOAD}, {"schema", _PAYLOAD})
_PRECISE_DECIMAL: Final = {"scale", "value"}
_UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Stands in an image for a large value that did not change, and that PostgreSQL has not logged."""


@dataclass(frozen=True, slots=True)
class EnvelopeForm:
    """Rows in Debezium's envelope. Picklable.

    Attributes:
        op: column of operations.
        record_key: columns of the table.
        partition: with partition scope, the columns of the table that tell records of one key apart.
        ordering: column of ordering values; None in a table without one. Where the images lack it, it is one of the envelope, such
            as ``ts_ms``, or of its source, such as ``lsn``.
        names: the columns of an image.
        part_bytes: of rows that are taken apart at once: a struct with more text may not fit into one Arrow array.
    """

    op: str
    record_key: tuple[str, ...]
    partition: tuple[str, ...]
    ordering: str | None
    names: tuple[str, ...]
    part_bytes: int = 512 << 20

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        op: str | None,
        *,
        record_key: tuple[str, ...],
        partition: tuple[str, ...],
        ordering: str | None,
    ) -> EnvelopeForm | None:
        """The form of rows of a schema, if it is an envelope: the images have the record key, and the rows have not.

        Args:
            schema: of the rows, without a payload around them.
            op: the column of operations that the caller names.
            record_key: as the attribute.
            partition: as the attribute.
            ordering: as the attribute.

        Raises:
            SchemaError: other columns stand beside the envelope, or a value came in a form of Debezium that is no value.
        """
        images = [schema.field(name).type for name in (_BEFORE, _AFTER) if name in schema.names]
        structs = [kind for kind in images if pa.types.is_struct(kind)]
        # A column of nulls alone has no type in Arrow's JSON, and is of strings in Spark's.
        is_image = all(kind in structs or pa.types.is_null(kind) or is_string(kind) for kind in images)
        fields = list(dict.fromkeys(field.name for kind in reversed(structs) for field in kind))
        if not structs or not is_image or set(record_key) <= set(schema.names) or not set(record_key) <= set(fields):
            return None
        op = op or OP
        require_operations(schema, op)
        others = [name for name in schema.names if name not in {*_COLUMNS, op, ordering}]
        if others:
            raise SchemaError(f"other columns stand beside Debezium's envelope: columns={others}", remedy="drop them")
        for kind in structs:
            require_distinct([field.name for field in kind])
        _require_values(structs)
        return cls(op, record_key, partition, ordering, tuple(fields))

    def changes(self, rows: pa.Table) -> Changes:
        """The changes of some rows; of an update that changes the key, the delete of the former key comes first.

        Raises:
            InvalidInputError: an operation is missing or unknown, or the image that it needs is missing.
        """
        step = max(1, rows.num_rows * self.part_bytes // max(rows.nbytes, self.part_bytes))
        parts = [self._changes(rows.slice(start, step)) for start in range(0, max(rows.num_rows, 1), step)]
        return Changes(
            pa.concat_tables([part.images for part in parts]), np.concatenate([part.deletes for part in parts])
        )

    def _changes(self, rows: pa.Table) -> Changes:
        present = [_require_image_or_null(rows, name) for name in (_BEFORE, _AFTER)]
        is_event = pc.or_(pc.or_(*present), pc.is_valid(_column(rows, self.op)))
        rows, (has_before, has_after) = rows.filter(is_event), (valid.filter(is_event) for valid in present)
        before, after = (_image(rows, name, self.names) for name in (_BEFORE, _AFTER))
        before, after = _of_one_type(before, after)
        shown = _chosen(pc.fill_null(has_after, False), after, before)
        shown = shown.select(self._identity)
        deletes = deletes_in(rows, self.op, shown)
        chosen = pa.array(deletes)
        _require_image(pc.if_else(chosen, has_before, has_after), chosen, shown)
        images = self._with_ordering(rows, _chosen(chosen, before, after))
        _require_available(images, ~deletes, shown)
        has_key = _true(has_before) & ~all_null(before, self.record_key)
        moved = np.flatnonzero(~deletes & has_key & self._differ(before, after))
        self._require_partitions(before, deletes, moved, shown)
        if not len(moved):
            return Changes(images, deletes)
        former = before.take(pa.array(moved))
        if self.ordering is not None and self.ordering in images.column_names:
            # The delete of the former key is as new as the event.
            values = images.column(self.ordering).take(pa.array(moved))
            former = _with_column(former, self.ordering, values)
        order = np.argsort(np.concatenate([2 * np.arange(len(deletes)) + 1, 2 * moved]), kind="stable")
        both = pa.concat_tables([images, former.select(images.column_names)]).take(pa.array(order))
        return Changes(both, np.concatenate([deletes, np.ones(len(moved), dtype=bool)])[order])

    @property
    def _identity(self) -> list[str]:
        """The columns of an image that tell one record from another."""
        return [name for name in dict.fromkeys((*self.record_key, *self.partition)) if name in self.names]

    def _require_partitions(
        self, before: pa.Table, deletes: NDArray[np.bool_], moved: NDArray[np.intp], shown: pa.Table
    ) -> None:
        """Refuse former images that have the key alone, where a key may be in several partitions."""
        others = [name for name in before.column_names if name not in self.record_key]
        if set(self.partition) <= set(self.record_key) or not others:
            return
        is_former = deletes.copy()
        is_former[moved] = True
        lacking = is_former & all_null(before, others)
        if lacking.any():
            raise InvalidInputError(
                "images of deleted records have the key alone, and a key may be in several partitions: "
                f"partition={list(self.partition)} rows={int(lacking.sum())} "
                f"sample={sample_of(shown.filter(pa.array(lacking)))}",
                remedy=(
                    "let the source log whole images (in PostgreSQL: REPLICA IDENTITY FULL), or give the table an "
                    "index of global scope"
                ),
            )

    def _with_ordering(self, rows: pa.Table, images: pa.Table) -> pa.Table:
        name = self.ordering
        if name is None or name in images.column_names:
            return images
        if name in rows.column_names:
            return images.append_column(name, rows.column(name))
        source = _column(rows, _SOURCE)
        if pa.types.is_struct(source.type) and source.type.get_field_index(name) >= 0:
            return images.append_column(name, pc.struct_field(source, name))
        return images

    def _differ(self, before: pa.Table, after: pa.Table) -> NDArray[np.bool_]:
        differ = np.zeros(before.num_rows, dtype=bool)
        for name in self._identity:
            one, other = before.column(name), after.column(name)
            same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))
            differ |= ~_true(same)
        return differ


def without_payload(rows: pa.Table) -> pa.Table:
    """The rows of events that came with their schema around them: their payload; other rows as they are."""
    if set(rows.column_names) not in _WITH_SCHEMA or not pa.types.is_struct(rows.schema.field(_PAYLOAD).type):
        return rows
    payload = rows.column(_PAYLOAD)
    names = [field.name for field in payload.type]
    return pa.table([pc.struct_field(payload, name) for name in names], names=names)


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).combine_chunks() if name in rows.column_names else pa.nulls(rows.num_rows)


def _image(rows: pa.Table, name: str, fields: tuple[str, ...]) -> pa.Table:
    struct = _column(rows, name)
    has = {field.name for field in struct.type} if pa.types.is_struct(struct.type) else set()
    return pa.table(
        [pc.struct_field(struct, field) if field in has else pa.nulls(rows.num_rows) for field in fields],
        names=list(fields),
    )


def _require_image_or_null(rows: pa.Table, name: str) -> pa.Array:
    """In which rows an image is; raises ``SchemaError`` for values that are no images."""
    column = _column(rows, name)
    present = pc.is_valid(column)
    if not pa.types.is_struct(column.type) and present.true_count:
        raise SchemaError(
            f"the image of a record is no struct: column={name} type={column.type}", remedy="parse it first"
        )
    return present


def _of_one_type(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    if before.schema.equals(after.schema):
        return before, after
    fields = [_common(one, other) for one, other in zip(after.schema, before.schema, strict=True)]
    return _cast(before, pa.schema(fields)), _cast(after, pa.schema(fields))


def _common(one: pa.Field, other: pa.Field) -> pa.Field:
    """The field that holds the values of both images."""
    has_type = not (pa.types.is_null(one.type) or pa.types.is_null(other.type))
    if has_type and is_string(one.type) != is_string(other.type):
        # Spark's JSON takes nulls alone for strings.
        return other if is_string(one.type) else one
    try:
        return pa.unify_schemas([pa.schema([one]), pa.schema([other])], promote_options="permissive").field(0)
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise SchemaError(
            f"the images before and after a change have different types: column={one.name} before={other.type} "
            f"after={one.type}",
            remedy="cast them",
        ) from error


def _cast(image: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        column = image.column(field.name)
        if is_string(column.type) and not is_string(field.type):
            if column.null_count < len(column):
                raise SchemaError(
                    f"the images before and after a change have different types: column={field.name} "
                    f"types={column.type} and {field.type}",
                    remedy="cast them",
                )
            column = pa.nulls(len(column), field.type)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=schema)


def _chosen(condition: pa.Array, one: pa.Table, other: pa.Table) -> pa.Table:
    columns = [pc.if_else(condition, *pair) for pair in zip(one.columns, other.columns, strict=True)]
    return pa.table(columns, schema=one.schema)


def _with_column(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    position = table.schema.get_field_index(name)
    return table.append_column(name, values) if position < 0 else table.set_column(position, name, values)


def _require_image(has_image: pa.Array, deletes: pa.Array, shown: pa.Table) -> None:
    lacking = ~_true(has_image)
    if not lacking.any():
        return
    is_delete = deletes.filter(pa.array(lacking))[0].as_py()
    name = _BEFORE if is_delete else _AFTER
    raise InvalidInputError(
        f"{'deletes' if is_delete else 'writes'} lack the image of their record: column={name} "
        f"rows={int(lacking.sum())} sample={sample_of(shown.filter(pa.array(lacking)))}",
        remedy="let the source log it (in PostgreSQL: REPLICA IDENTITY FULL)",
    )


def _require_available(images: pa.Table, writes: NDArray[np.bool_], shown: pa.Table) -> None:
    for name, column in zip(images.column_names, images.columns, strict=True):
        if not (is_string(column.type) or pa.types.is_binary(column.type)):
            continue
        lacking = _true(pc.equal(column.cast(pa.large_binary()), _UNAVAILABLE.encode())) & writes
        if lacking.any():
            raise InvalidInputError(
                f"Debezium sent placeholders for unchanged values: column={name} rows={int(lacking.sum())} "
                f"sample={sample_of(shown.filter(pa.array(lacking)))}",
                remedy="let the source log them (in PostgreSQL: REPLICA IDENTITY FULL)",
            )


def _require_values(structs: list[pa.StructType]) -> None:
    for field in _fields(structs):
        names = {part.name for part in field.type} if pa.types.is_struct(field.type) else set()
        if names == _PRECISE_DECIMAL and pa.types.is_integer(field.type.field("scale").type):
            raise SchemaError(
                f"Debezium sent decimals as bytes with a scale: column={field.name} type={field.type}",
                remedy="set decimal.handling.mode=string or double in the connector",
            )


def _fields(structs: list[pa.StructType]) -> Iterator[pa.Field]:
    for kind in structs:
        yield from kind


def _true(values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    found: NDArray[np.bool_] = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return found
