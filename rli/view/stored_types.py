"""The types with which file slices are stored, where a table's types have grown since: for readers that convert none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import pyarrow as pa

from rli.storage import Storage
from rli.view.file_slice_reader import FileSliceReader
from rli.view.file_slices import FileSlice


def slices_by_types(
    storage: Storage, slices: Sequence[FileSlice], schema: pa.Schema
) -> list[tuple[pa.Schema, list[FileSlice]]]:
    """Some slices by the types of their files.

    Types only grow, from commit to commit. So a few footers tell the types of all slices: of the oldest and of the newest,
    and of those between them where these two differ.

    Args:
        storage: of the table.
        slices: one or more.
        schema: of the records that are read.

    Returns:
        For each set of types the schema, with the names and the shape of ``schema``, and its slices.

    Raises:
        CorruptTableError: a base file cannot be read.
    """
    ordered = sorted(slices, key=lambda file_slice: (file_slice.instant, file_slice.group))
    runs = [list(run) for _, run in groupby(ordered, key=lambda file_slice: file_slice.instant)]
    known: dict[int, pa.Schema] = {}

    def types_of(number: int) -> pa.Schema:
        if number not in known:
            with FileSliceReader(storage, runs[number][0]) as reader:
                known[number] = stored_types(schema, reader.schema)
        return known[number]

    _know_where_types_change(types_of, 0, len(runs) - 1)
    found: list[tuple[pa.Schema, list[FileSlice]]] = []
    for number, run in enumerate(runs):
        types = known.get(number, found[-1][0] if found else schema)
        if found and found[-1][0].equals(types):
            found[-1][1].extend(run)
        else:
            found.append((types, list(run)))
    return found


def stored_types(schema: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """A schema with the types that a file has, as far as it has the columns and the fields of structs."""
    return pa.schema([_stored_field(field, stored) for field in schema])


def _know_where_types_change(types_of: Callable[[int], pa.Schema], first: int, last: int) -> None:
    """Ask for the types on both sides of each change."""
    if types_of(first).equals(types_of(last)) or last - first < 2:
        return
    middle = (first + last) // 2
    _know_where_types_change(types_of, first, middle)
    _know_where_types_change(types_of, middle, last)


def _stored_field(field: pa.Field, stored: pa.Schema | pa.StructType) -> pa.Field:
    position = stored.get_field_index(field.name)
    return field if position < 0 else field.with_type(_stored_type(field.type, stored.field(position).type))


def _stored_type(kind: pa.DataType, stored: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind) and pa.types.is_struct(stored):
        return pa.struct([_stored_field(field, stored) for field in kind])
    if pa.types.is_list(kind) and pa.types.is_list(stored):
        return pa.list_(kind.value_field.with_type(_stored_type(kind.value_type, stored.value_type)))
    if pa.types.is_map(kind) and pa.types.is_map(stored):
        return pa.map_(kind.key_field, kind.item_field.with_type(_stored_type(kind.item_type, stored.item_type)))
    grown = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    return stored if any(is_of_kind(stored) for is_of_kind in grown) else kind
