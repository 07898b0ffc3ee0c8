"""The history of a table's columns as Hudi's schema-on-read keeps it: which names and which ids columns had.

Hudi finds the columns of older files by id, so that they can be renamed, and dropped and added again. rli finds them by
name. Both give the same records unless a column has changed its name, or a name its column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.column_names import below
from rli.json_text import parse_json
from rli.storage import Storage

LATEST_SCHEMA: Final = "latest_schema"
"""Entry of a commit's extra metadata: the columns with their ids. Tables without schema-on-read have none."""

_FOLDER: Final = ".hoodie/.schema"
_ENDING: Final = ".schemacommit"


def require_no_history(extra: Mapping[str, str], table: str) -> None:
    """Pass a table whose last commit keeps no history of columns: a commit without one would end it.

    Args:
        extra: the strings that the last commit keeps; none in a table without commits.
        table: its location, for the message.

    Raises:
        UnsupportedTableError: it keeps one.
    """
    if extra.get(LATEST_SCHEMA):
        raise UnsupportedTableError(
            "the table keeps a history of its columns for Hudi's schema-on-read, which rli does not write: "
            f"table={table}",
            remedy="write it with Hudi, or write all records into a new table",
        )


def require_found_by_name(storage: Storage) -> None:
    """Pass a table whose columns are found by their names in all files.

    Raises:
        UnsupportedTableError: a column was renamed, or dropped and added again.
        CorruptTableError: the history cannot be read.
    """
    files = sorted(file.path for file in storage.list_files(_FOLDER) if file.path.endswith(_ENDING))
    content = storage.read_bytes(files[-1]) if files else None
    if content is None:
        return
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    for path, number in _columns_of_history(content, files[-1]):
        known = names.setdefault(number, path)
        if known != path or ids.setdefault(path, number) != number:
            raise UnsupportedTableError(
                "a column was renamed, or dropped and added again, by Hudi's schema-on-read, and rli finds columns by "
                f"name: table={storage.location} column={path} before={known}",
                remedy="write all records into a new table with Hudi",
            )


def _columns_of_history(content: bytes, file: str) -> list[tuple[str, int]]:
    try:
        schemas = parse_json(content.decode())["schemas"]
        return [column for schema in schemas for column in _columns(schema, "")]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptTableError(
            f"the history of the table's columns cannot be read: file={file} ({type(error).__name__}: {error})",
            remedy="restore the file from a backup",
        ) from error


def _columns(kind: Any, path: str) -> Iterator[tuple[str, int]]:
    """The columns and struct fields of a type with their ids."""
    if not isinstance(kind, Mapping):
        return
    for field in kind.get("fields", ()):
        inner = below(path, field["name"])
        yield inner, int(field["id"])
        yield from _columns(field["type"], inner)
    for part in ("element", "value"):
        if part in kind:
            yield from _columns(kind[part], below(path, part))
