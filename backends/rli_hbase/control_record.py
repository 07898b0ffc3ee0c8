"""The cell of a control record, version 1.

======== ========== ============================================================================================
bytes    field      meaning
======== ========== ============================================================================================
1        kind       ``-`` removed, ``=`` the value is here, ``+`` the value is in pieces
8        token      random, drawn again by each change: names this state of the record
1        n          how many tokens follow
8 n      history    tokens of the states before, the last one first, at most ``MAX_HISTORY``
the rest body       the value; or, of a value in pieces, their number (4 bytes, big-endian)
======== ========== ============================================================================================

A record is removed by writing the state ``-``, not by a delete, which in HBase may hide a put of the same
millisecond. The history settles what became of a change whose answer was lost: if its token is in the cell, it was
made; if the state that it was to replace is in the cell and it is not, then it never was, and never will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from rli.errors import CorruptIndexError

TOKEN_WIDTH: Final = 8
MAX_HISTORY: Final = 64

_COUNT_WIDTH: Final = 4


class Kind(Enum):
    """Where the value of a record is."""

    REMOVED = b"-"
    HERE = b"="
    IN_PIECES = b"+"


@dataclass(frozen=True, slots=True)
class RecordState:
    """One state of a control record.

    Attributes:
        kind: where its value is.
        token: names this state.
        history: tokens of the states before, the last one first.
        body: the value, or what leads to its pieces.
    """

    kind: Kind
    token: bytes
    history: tuple[bytes, ...]
    body: bytes

    @property
    def piece_count(self) -> int:
        """In how many pieces the value is; 0 where it is in none."""
        return int.from_bytes(self.body, "big") if self.kind is Kind.IN_PIECES else 0

    @property
    def has_whole_history(self) -> bool:
        """Whether the history goes back to the first state."""
        return len(self.history) < MAX_HISTORY

    def followed(self, token: bytes) -> bool:
        """Whether the state that ``token`` names is this one or one before it that the history still holds."""
        return token == self.token or token in self.history

    def to_bytes(self) -> bytes:
        return b"".join((self.kind.value, self.token, bytes([len(self.history)]), *self.history, self.body))

    @classmethod
    def from_bytes(cls, cell: bytes) -> RecordState:
        """Read a cell; raises ``CorruptIndexError`` if it holds no control record."""
        try:
            kind = Kind(cell[:1])
            end = 2 + TOKEN_WIDTH * (1 + cell[1 + TOKEN_WIDTH])
        except (ValueError, IndexError) as error:
            raise CorruptIndexError(
                f"a control record is damaged: bytes={len(cell)}", remedy="drop the index and bootstrap it again"
            ) from error
        tokens = [cell[start : start + TOKEN_WIDTH] for start in range(2 + TOKEN_WIDTH, end, TOKEN_WIDTH)]
        return cls(kind, cell[1 : 1 + TOKEN_WIDTH], tuple(tokens), cell[end:])


def next_state(before: RecordState | None, token: bytes, kind: Kind, body: bytes) -> RecordState:
    """The state that follows ``before`` (None: the first one)."""
    history = () if before is None else (before.token, *before.history)[:MAX_HISTORY]
    return RecordState(kind, token, history, body)


def pieces_body(count: int) -> bytes:
    """The body of a record whose value is in ``count`` pieces."""
    return count.to_bytes(_COUNT_WIDTH, "big")
