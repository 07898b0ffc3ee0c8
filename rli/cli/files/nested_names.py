"""Names inside of columns as a table can hold them, for files whose types tell all names."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rli.cli.files.given_file import GivenFile
from rli.errors import InvalidInputError
from rli.hudi.column_names import below, simple_name


def with_simple_names_inside(records: pa.Table, file: GivenFile) -> pa.Table:
    """The records with names of the form ``domain_name`` inside of their columns; columns keep their names.

    Raises:
        InvalidInputError: two names inside of a column become one.
    """
    for position, field in enumerate(records.schema):
        kind = _renamed(field.type, field.name, file)
        if kind != field.type:
            chunks = [pa.array(_Retyped(chunk, kind)) for chunk in records.column(position).chunks]
            records = records.set_column(position, field.name, pa.chunked_array(chunks, kind))
    return records


@dataclass(frozen=True, slots=True)
class _Retyped:
    """An array whose type has other names, for Arrow's exchange of arrays; no value is copied."""

    array: pa.Array
    kind: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, content = self.array.__arrow_c_array__()
        return self.kind.__arrow_c_schema__(), content


def _renamed(kind: pa.DataType, path: str, file: GivenFile) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_renamed_fields(kind, path, file))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, _renamed_field(kind.item_field, path, file))
    for is_list, list_of in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_list(kind):
            return list_of(_renamed_field(kind.value_field, path, file))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_renamed_field(kind.value_field, path, file), kind.list_size)
    return kind


def _renamed_field(field: pa.Field, path: str, file: GivenFile) -> pa.Field:
    return field.with_type(_renamed(field.type, path, file))


def _renamed_fields(kind: pa.DataType, path: str, file: GivenFile) -> list[pa.Field]:
    fields: dict[str, pa.Field] = {}
    for field in kind:
        name = simple_name(field.name)
        if name in fields:
            names = [other.name for other in kind if simple_name(other.name) == name]
            raise InvalidInputError(
                f"two names become one: {file.place(None)} column={below(path, name)} names={names}",
                remedy="rename one in the file",
            )
        fields[name] = _renamed_field(field, below(path, name), file).with_name(name)
    return list(fields.values())
