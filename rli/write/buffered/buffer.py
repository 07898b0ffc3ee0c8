"""What a writer has accepted and not yet committed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from rli.errors import SettingsError
from rli.write.buffered.rows import Row, RowForm

_MOST_LOOSE_ROWS: Final = 1_024
_MOST_LOOSE_BYTES: Final = 1024 * 1024
"""So many rows, or so much of them, wait as dicts, which take several times as much memory as Arrow."""

_MOST_SMALL_TABLES: Final = 256
"""So many tables become one: each takes some KiB beside its values."""


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """When a buffer is committed.

    Attributes:
        max_rows: in the buffer.
        max_bytes: of their values.
        max_seconds: since the first of them came; None for as long as one likes.
    """

    max_rows: int
    max_bytes: int
    max_seconds: float | None

    def __post_init__(self) -> None:
        for name, most in (
            ("max_rows", self.max_rows),
            ("max_bytes", self.max_bytes),
            ("max_seconds", self.max_seconds),
        ):
            if most is not None and not most > 0:
                raise SettingsError(
                    f"a limit of the writer must be positive: {name}={most}", remedy="leave it out, or give more"
                )


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one commit: they stay the same however often the commit is tried.

    Attributes:
        order: counts the buffers of the writer.
        number: of the transaction.
        records: the rows.
        metadata: kept with the commit.
    """

    order: int
    number: int
    records: pa.Table
    metadata: Mapping[str, str]


@dataclass(slots=True)
class Buffer:
    """Rows that wait, in the order in which they came.

    Attributes:
        order: counts the buffers of the writer.
        rows: how many there are.
        size: bytes of their values.
        since: of ``time.monotonic``, when the first row came; None if there is neither a row nor metadata.
        metadata: what came with them.
    """

    order: int
    rows: int = 0
    size: int = 0
    since: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    _tables: list[pa.Table] = field(default_factory=list)
    _loose: list[Row] = field(default_factory=list)
    _loose_size: int = 0
    _small: int = 0

    def add_row(self, form: RowForm, row: Row, size: int) -> None:
        """Take a row that passed the quick check."""
        self._loose.append(row)
        self._loose_size += size
        self.rows += 1
        self.size += size
        if len(self._loose) >= _MOST_LOOSE_ROWS or self._loose_size >= _MOST_LOOSE_BYTES:
            self._close_chunk(form)

    def add_table(self, form: RowForm, table: pa.Table) -> None:
        """Take a table of the form's schema."""
        self._close_chunk(form)
        self._tables.append(table)
        self._small += 1
        if self._small >= _MOST_SMALL_TABLES:
            self._tables[-self._small :] = [pa.concat_tables(self._tables[-self._small :]).combine_chunks()]
            self._small = 0
        self.rows += table.num_rows
        self.size += table.nbytes

    def note(self, metadata: Mapping[str, str]) -> None:
        """Keep what came with rows, and when the first ones came."""
        self.metadata.update(metadata)
        if self.since is None and (self.rows or self.metadata):
            self.since = time.monotonic()

    def is_full(self, limits: WriterLimits) -> bool:
        return self.rows >= limits.max_rows or self.size >= limits.max_bytes

    def seconds_left(self, limits: WriterLimits) -> float | None:
        """Until the rows have waited for long enough; None for no end."""
        if self.since is None or limits.max_seconds is None:
            return None
        return max(0.0, self.since + limits.max_seconds - time.monotonic())

    def table(self, form: RowForm) -> pa.Table:
        """All rows."""
        self._close_chunk(form)
        return pa.concat_tables(self._tables) if self._tables else form.schema.empty_table()

    def _close_chunk(self, form: RowForm) -> None:
        if self._loose:
            self._tables.append(form.plain(self._loose))
            self._loose, self._loose_size, self._small = [], 0, 0
