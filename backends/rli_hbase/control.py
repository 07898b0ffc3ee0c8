"""Control records: small named values, changed by compare-and-set.

HBase compares and sets one cell at a time, so a record is one cell; a value that is too large for it is written in
pieces beforehand, in rows that no other value ever has.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from rli.errors import CorruptIndexError, StoreUnavailableError
from rli_hbase.control_record import TOKEN_WIDTH, Kind, RecordState, next_state, pieces_body
from rli_hbase.keyspace import name_of_record, piece_row, record_row, successor
from rli_hbase.scanning import read_rows
from rli_hbase.table import IndexTable
from rli_hbase.thrift import Mutation, TScan

MAX_CELL_BYTES: Final = 10 << 10
"""The largest value that is kept in its record's own cell: a page of records has a megabyte at most."""

PIECE_BYTES: Final = 1 << 20
"""Bytes of a piece; HBase refuses cells above 10 MiB."""

_RECORDS_PER_PAGE: Final = 100
_NOT_REMOVED: Final = b"ValueFilter(!=, 'binaryprefix:%s')" % Kind.REMOVED.value


class ControlRecords:
    """The control records of one generation of an index."""

    def __init__(self, table: IndexTable) -> None:
        self._table = table
        self._client = table.client
        self._column = table.columns.control

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """The values of records, None for an absent record; see ``Store.read_controls``."""
        cells = self._table.read_while_present([record_row(name) for name in names], self._column)
        states = (None if cell is None else RecordState.from_bytes(cell) for cell in cells)
        return list(map(self._value, names, states))

    def scan(self, prefix: str, start: str) -> list[tuple[str, bytes]]:
        """Records whose name begins with ``prefix`` and is not below ``start``, ordered by name."""
        named = ((name, self._value(name, state)) for name, state, _ in self._states(prefix, start))
        return [(name, value) for name, value in named if value is not None]

    def times(self, prefix: str, start: str) -> list[tuple[str, int]]:
        """When each of these records was last set, in milliseconds of the clock of HBase."""
        return [(name, time) for name, _, time in self._states(prefix, start)]

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        """Set a record to ``value`` (None removes it) if it is ``expected`` (None: absent), atomically.

        Raises:
            StoreUnavailableError: it cannot be told whether the record was set.
        """
        token = secrets.token_bytes(TOKEN_WIDTH)
        before = self._state(name)
        # The value is compared here, and the whole state there: HBase then swaps it only if no change came in between,
        # not even one back to the same value.
        if self._value(name, before) != expected:
            return False
        # The pieces are stored before the record names them. A process that dies in between leaves pieces that nobody
        # reads.
        kind, body = self._write_value(token, value)
        while not self._swap(name, before, after := next_state(before, token, kind, body)):
            before = self._state(name)
            if self._value(name, before) != expected:
                # This change has lost, so nobody can come to read its pieces.
                self._remove_pieces(after)
                return False
        # Behind the swap, or a reader of the old state would find a part of its value missing. A reader that comes too
        # late anyway reads the record again.
        self._remove_pieces(before)
        return True

    def _states(self, prefix: str, start: str) -> Iterator[tuple[str, RecordState, int]]:
        row, stop = max(record_row(prefix), record_row(start)), successor(record_row(prefix))
        while row < stop:
            page = self._client.call(partial(self._read_page, row, stop))
            for record, cell in page:
                yield name_of_record(record), RecordState.from_bytes(cell.value), cell.timestamp
            if len(page) < _RECORDS_PER_PAGE:
                break
            # The first row behind the last one: records that are added meanwhile shift no page.
            row = page[-1][0] + b"\0"

    def _state(self, name: str) -> RecordState | None:
        cell = self._client.call(partial(self._read_cell, record_row(name)))
        return None if cell is None else RecordState.from_bytes(cell)

    def _value(self, name: str, state: RecordState | None) -> bytes | None:
        """The value of a record in a state; in a later one, if that has come meanwhile."""
        while state is not None and state.kind is Kind.IN_PIECES:
            value = self._read_pieces(state)
            if value is not None:
                return value
            # The process that replaces a value removes its pieces.
            read, state = state, self._state(name)
            if state == read:
                raise CorruptIndexError(
                    f"a control record has lost a part of its value: store={self._client.settings.location} "
                    f"name={name}",
                    remedy="drop the index and bootstrap it again",
                )
        return state.body if state is not None and state.kind is Kind.HERE else None

    def _swap(self, name: str, before: RecordState | None, after: RecordState) -> bool:
        """Replace a state; False if another one had come before.

        The call may be repeated, by our retries or by those of the Thrift server itself: the first attempt may have
        been applied and the last one refused because of it. So a refusal counts only where the record's history
        shows that no attempt was applied.
        """
        change = Mutation(column=self._column, value=after.to_bytes())
        expected = None if before is None else before.to_bytes()
        if self._client.call(
            lambda thrift: thrift.checkAndPut(self._client.table, record_row(name), self._column, expected, change, {})
        ):
            return True
        stored = self._state(name)
        # The refusal was of a repeat: an earlier attempt had been applied, perhaps followed by changes of others since.
        if stored is not None and stored.followed(after.token):
            return True
        # The history is whole, or has the state that was to be replaced, and our token is not in it: then no attempt
        # was applied, and none can be any more, because that state never comes back. Where the history was cut before
        # that state, nobody knows.
        if stored is None or not (stored.has_whole_history or (before is not None and stored.followed(before.token))):
            raise StoreUnavailableError(
                f"unknown whether a control record was set: store={self._client.settings.location} name={name}",
                remedy="read it, and try again",
            )
        return False

    def _write_value(self, token: bytes, value: bytes | None) -> tuple[Kind, bytes]:
        """Write what does not fit into a cell; kind and body of the record."""
        if value is None:
            return Kind.REMOVED, b""
        if len(value) <= MAX_CELL_BYTES:
            return Kind.HERE, bytes(value)
        starts = range(0, len(value), PIECE_BYTES)
        for number, start in enumerate(starts):
            piece = Mutation(column=self._column, value=bytes(value[start : start + PIECE_BYTES]))
            self._client.call(partial(self._put, piece_row(token, number), piece))
        return Kind.IN_PIECES, pieces_body(len(starts))

    def _read_cell(self, row: bytes, thrift: Any) -> bytes | None:
        rows = thrift.getRowWithColumns(self._client.table, row, [self._column], {})
        return rows[0].columns[self._column].value if rows else None

    def _delete(self, row: bytes, thrift: Any) -> None:
        thrift.deleteAllRow(self._client.table, row, {})

    def _put(self, row: bytes, mutation: Mutation, thrift: Any) -> None:
        thrift.mutateRow(self._client.table, row, [mutation], {})

    def _read_pieces(self, state: RecordState) -> bytes | None:
        """The value of a record in pieces, None if they are not all there."""
        pieces: list[bytes] = []
        for row in _piece_rows(state):
            piece = self._client.call(partial(self._read_cell, row))
            if piece is None:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def _remove_pieces(self, state: RecordState | None) -> None:
        if state is None:
            return
        for row in _piece_rows(state):
            # Nothing depends on it, and the record has been changed already.
            with suppress(StoreUnavailableError):
                self._client.call(partial(self._delete, row))

    def _read_page(self, start: bytes, stop: bytes, thrift: Any) -> list[tuple[bytes, Any]]:
        scan = TScan(
            startRow=start,
            stopRow=stop,
            columns=[self._column],
            caching=_RECORDS_PER_PAGE,
            filterString=_NOT_REMOVED,
        )
        rows = read_rows(thrift, self._client.table, scan, _RECORDS_PER_PAGE)
        return [(row.row, row.columns[self._column]) for row in rows]


def _piece_rows(state: RecordState) -> Iterator[bytes]:
    return (piece_row(state.token, number) for number in range(state.piece_count))
