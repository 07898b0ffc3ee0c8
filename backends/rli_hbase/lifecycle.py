"""When there is an index in a table: making it, finding it, and removing it.

There is an index where the table holds a generation, 16 random bytes that no other index ever has. A drop replaces
the generation by a note of the drop before it removes the table, so an index that was dropped, or dropped and created again, gives
nothing to stores that were opened before: they look at the generation after each of their reads and writes. An answer
is right if the generation is still the same afterwards; and what was written under another one is never read.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

from rli.errors import CorruptIndexError, IndexMismatchError, IndexNotFoundError, StoreUnavailableError
from rli_hbase.client import Client
from rli_hbase.errors import (
    DropUnderWayError,
    NotThereYetError,
    is_table_missing,
    is_table_not_enabled,
)
from rli_hbase.keyspace import (
    FAMILIES,
    GENERATION_COLUMN,
    GENERATION_ROW,
    OWN_VERSIONS,
    RANDOM_BYTES,
    VERSION_BY_PREFIX,
)
from rli_hbase.table_making import create_table, require_lasting
from rli_hbase.thrift import HbaseError, Mutation

_DROPPED: Final = b"\0dropped"


def find_generation(client: Client, versions: Sequence[int] = OWN_VERSIONS) -> bytes:
    """The generation of the index, of some versions of the format, in the client's table.

    Raises:
        SettingsError: the table's cells expire.
        IndexNotFoundError: there is no index.
        IndexMismatchError: it has a format that this version does not know.
        CorruptIndexError: its header is damaged.
    """
    generation = client.call(lambda thrift: _read(client, thrift))
    if generation is None or generation == _DROPPED:
        raise IndexNotFoundError(
            f"there is no index in this table: store={client.settings.location}", remedy="create it first"
        )
    client.call(lambda thrift: require_lasting(client, FAMILIES, thrift))
    return _checked(client, generation, versions)


def find_or_make_generation(client: Client, versions: Sequence[int] = OWN_VERSIONS, prefix_width: int = 0) -> bytes:
    """The same, but makes an index where there is none, in an empty table or one that was made beforehand.

    Args:
        client: of the table.
        versions: of the format; a new index gets the first one, unless it has a prefix width.
        prefix_width: by how many first bytes the keys of a new index are found; 0 for whole keys alone.

    Raises:
        SettingsError: the table is one of something else, or its cells expire.
        IndexMismatchError: the index has a format that this version does not know.
        CorruptIndexError: its header is damaged.
        StoreUnavailableError: HBase does not answer, or does not let us make the table.
    """
    try:
        return client.call(lambda thrift: _make(client, versions, prefix_width, thrift))
    except StoreUnavailableError as error:
        if not isinstance(error.__cause__, DropUnderWayError):
            raise
    # The process that began the drop has not ended it in all that time, so it died.
    client.call(lambda thrift: _remove_table(client, thrift))
    return client.call(lambda thrift: _make(client, versions, prefix_width, thrift))


def time_of_generation(client: Client) -> int:
    """When the index was made, in milliseconds of the clock of HBase; raises ``IndexNotFoundError`` without one."""
    rows = client.call(lambda thrift: _read_row(client, thrift))
    if not rows:
        raise _was_dropped(client)
    time: int = rows[0].columns[GENERATION_COLUMN].timestamp
    return time


def require_generation(client: Client, generation: bytes) -> None:
    """Raise ``IndexNotFoundError`` if the table holds another generation by now, or none."""
    if client.call(lambda thrift: _read(client, thrift)) != generation:
        raise _was_dropped(client)


def cells_beside_generation(
    client: Client, generation: bytes, rows: Sequence[bytes], column: bytes
) -> list[bytes | None]:
    """The cells of a column in some rows; raises ``IndexNotFoundError`` if the same request finds another generation, or none."""
    found = client.call(lambda thrift: _read_beside_generation(client, rows, column, thrift))
    cells = {(row.row, name): cell.value for row in found for name, cell in row.columns.items()}
    if cells.get((GENERATION_ROW, GENERATION_COLUMN)) != generation:
        raise _was_dropped(client)
    return [cells.get((row, column)) for row in rows]


def drop_generation(client: Client, generation: bytes) -> None:
    """Remove the index and its table; raises ``IndexNotFoundError`` if it is not there any more."""
    # First the note, then the table. In between, the index is gone for everybody, and the next create finishes the
    # removal.
    client.call(lambda thrift: _swap(client, thrift, generation, _DROPPED))
    # The swap may have been made by an attempt that was not answered, so what counts is what is there.
    if client.call(lambda thrift: _read(client, thrift)) != _DROPPED:
        raise _was_dropped(client)
    client.call(lambda thrift: _remove_table(client, thrift))


def _read_row(client: Client, thrift: Any) -> list[Any]:
    rows: list[Any] = thrift.getRowWithColumns(client.table, GENERATION_ROW, [GENERATION_COLUMN], {})
    return rows


def _read(client: Client, thrift: Any) -> bytes | None:
    rows = _read_row(client, thrift)
    return rows[0].columns[GENERATION_COLUMN].value if rows else None


def _read_beside_generation(client: Client, rows: Sequence[bytes], column: bytes, thrift: Any) -> list[Any]:
    wanted, columns = [GENERATION_ROW, *rows], [GENERATION_COLUMN, column]
    try:
        found: list[Any] = thrift.getRowsWithColumns(client.table, wanted, columns, {})
    except HbaseError:
        # HBase does not say of many rows that the table is gone; of one row it does.
        _read_row(client, thrift)
        raise
    return found


def _swap(client: Client, thrift: Any, before: bytes | None, after: bytes) -> None:
    change = Mutation(column=GENERATION_COLUMN, value=after)
    thrift.checkAndPut(client.table, GENERATION_ROW, GENERATION_COLUMN, before, change, {})


def _make(client: Client, versions: Sequence[int], prefix_width: int, thrift: Any) -> bytes:
    try:
        generation = _read(client, thrift)
    except HbaseError as error:
        if not is_table_missing(error):
            raise
        create_table(client.table, FAMILIES, 1, thrift)
        raise NotThereYetError from error
    require_lasting(client, FAMILIES, thrift)
    if generation is None:
        _swap(client, thrift, None, _new_generation(versions[0], prefix_width))
        raise NotThereYetError
    if generation == _DROPPED:
        raise DropUnderWayError
    return _checked(client, generation, versions)


def _new_generation(version: int, prefix_width: int) -> bytes:
    """Another one for each attempt: between two of them, others may have made an index and dropped it."""
    begin = bytes([VERSION_BY_PREFIX if prefix_width else version])
    return begin + secrets.token_bytes(RANDOM_BYTES) + (bytes([prefix_width]) if prefix_width else b"")


def _remove_table(client: Client, thrift: Any) -> None:
    """Disable and delete the table, if another attempt has not done so."""
    try:
        # Another process may have removed the table, and made an index anew: that one must stay.
        if _read(client, thrift) != _DROPPED:
            return
        thrift.disableTable(client.table)
    except HbaseError as error:
        if is_table_missing(error):
            return
        if not is_table_not_enabled(error):
            raise
    try:
        thrift.deleteTable(client.table)
    except HbaseError as error:
        if not is_table_missing(error):
            raise


def _checked(client: Client, generation: bytes, versions: Sequence[int]) -> bytes:
    if generation[0] not in versions:
        known = ", ".join(map(str, versions))
        raise IndexMismatchError(
            f"the index has a format of another version: store={client.settings.location} version={generation[0]} "
            f"known={known}",
            remedy="open it with the version of rli that made it",
        )
    if generation[0] == VERSION_BY_PREFIX and not (len(generation) == 2 + RANDOM_BYTES and generation[-1]):
        raise CorruptIndexError(
            f"the header of the index is damaged: store={client.settings.location} bytes={len(generation)}",
            remedy="drop the index and make it again",
        )
    return generation


def _was_dropped(client: Client) -> IndexNotFoundError:
    return IndexNotFoundError(
        f"the index was dropped: store={client.settings.location}",
        remedy="open it again, or create it if there is none",
    )
