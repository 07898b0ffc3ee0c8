"""The request of a write: its keys are formed before the write begins, in the types that the table's columns have.

Only the first write of a table decides on these types. Where another writer's first write gets there while a request is
formed, its keys may be spelled in other types: then the request is formed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from rli.commit.exclusive_service import made_ready
from rli.commit.write_basis import WriteBasis
from rli.errors import CorruptTableError, SchemaError
from rli.hudi.table_keys import TableKeys
from rli.index.contract import TableIndex
from rli.model import CommitResult
from rli.view.definition import TableDefinition
from rli.view.given_keys import table_keys
from rli.write.contract import Engine, Request
from rli.write.keying import Keying


class KeyTypesChangedError(SchemaError):
    """Another writer gave the table's key columns other types while the request was formed."""


def write_request(
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    source: Any,
    *,
    keying_of: Callable[[TableKeys], Keying],
    write: Callable[[Request], CommitResult],
    may_recover: bool = True,
) -> CommitResult:
    """The result of a write of a source's keyed rows.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: forms the request.
        source: rows in the engine's own form.
        keying_of: forms the rows' keys.
        write: writes the request; it is called again if it raises ``KeyTypesChangedError``.
        may_recover: whether what a power cut has torn may be undone first.

    Raises:
        KeyTypesChangedError: the engine's rows were keyed before, and their keys cannot be formed again.
    """
    keys = _keys_to_write(table, index) if may_recover else table_keys(table)
    while True:
        with engine.request(source, keying_of(keys), table, index) as request:
            try:
                return write(request)
            except KeyTypesChangedError:
                present = table_keys(table)
                if present == keys:
                    raise
                keys = present


def require_same_key_types(write: WriteBasis, request: pa.Schema) -> None:
    """Raise ``KeyTypesChangedError`` if records of a schema have keys in other types than the table has by now."""
    for stored in write.snapshot.table_keys.types:
        kind = request.field(stored.name).type if stored.name in request.names else stored.type
        if kind != stored.type:
            raise KeyTypesChangedError(
                f"another writer gave a key or partition column its type, after the keys of this write were formed: "
                f"column={stored.name} table={stored.type} records={kind}; write again, or start the stream again"
            )


def _keys_to_write(table: TableDefinition, index: TableIndex) -> TableKeys:
    try:
        return table_keys(table)
    except CorruptTableError:
        # A commit that a power cut has torn is undone by the write that is about to begin; its columns do not count.
        return table_keys(made_ready(table, index, "recovery before a write").table)
