"""The control record of a prepared transaction, version 1."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rli.errors import CorruptIndexError
from rli.index.record.log.actions import PREPARE, TRANSACTION
from rli.index.record.log.record import LogRecord
from rli.index.record.log.staged import Staged
from rli.index.record.log.state import LogState
from rli.processes import ProcessId

PREFIX: Final = "prepared/"
"""Begins the names of these records; the writer follows."""

_VERSION: Final = 1


class State(StrEnum):
    """How far a prepared transaction has come."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction as its control record shows it.

    Attributes:
        writer: identity of the transaction.
        state: how far it has come.
        instant: that look-ups will report.
        snapshot: the last commit sequence that it was built on.
        fence: the sequence of the record that announces it; 0 while it is being prepared.
        staged: its changes; how many keys they place and remove is known.
        metadata: of the caller.
        prepared_at: seconds since the epoch, by the clock of its host.
        process: that prepared it.
        content: of the control record, as it was read.
    """

    writer: str
    state: State
    instant: str
    snapshot: int
    fence: int
    staged: Staged
    metadata: tuple[tuple[str, str], ...]
    prepared_at: float
    process: ProcessId
    content: bytes = b""

    @property
    def name(self) -> str:
        """Of the control record."""
        return PREFIX + self.writer

    def is_announced_in(self, log: LogState) -> bool:
        """Whether the log has the record that announces it, so that a process that appends behind it must heed it."""
        if self.fence:
            return self.fence <= log.head
        return self._finds(log, self.snapshot, PREPARE) is not None

    def commit_in(self, log: LogState) -> LogRecord | None:
        """The record of its commit; None if the log has none."""
        return self._finds(log, max(self.snapshot, self.fence), TRANSACTION)

    def _finds(self, log: LogState, after: int, action: str) -> LogRecord | None:
        found = (r for r in log.records_after(after) if r.writer == self.writer and r.action == action)
        return next(found, None)

    def to_json(self) -> bytes:
        process, staged = self.process, self.staged
        stored = _Stored(
            version=_VERSION,
            state=self.state,
            instant=self.instant,
            snapshot=self.snapshot,
            fence=self.fence,
            chunks=staged.chunks,
            keepsChunks=staged.keeps_chunks,
            placed=staged.placed or 0,
            deleted=staged.deleted or 0,
            metadata=dict(self.metadata),
            preparedAt=self.prepared_at,
            host=process.host,
            pid=process.pid,
            started=process.started,
        )
        return json.dumps(stored.model_dump(), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, name: str, content: bytes) -> Prepared:
        """Read a record; raises ``CorruptIndexError`` if it is damaged, or of a newer version."""
        try:
            stored = _Stored.model_validate_json(content)
        except ValidationError as error:
            raise CorruptIndexError(
                f"a prepared transaction cannot be read: record={name}",
                remedy="use the version of rli that wrote it, or drop the index and build it again from the table's files",
            ) from error
        return cls(
            writer=name.removeprefix(PREFIX),
            state=stored.state,
            instant=stored.instant,
            snapshot=stored.snapshot,
            fence=stored.fence,
            staged=Staged(stored.chunks, stored.keepsChunks, stored.placed, stored.deleted),
            metadata=tuple(sorted(stored.metadata.items())),
            prepared_at=stored.preparedAt,
            process=ProcessId(stored.host, stored.pid, stored.started),
            content=content,
        )


_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Stored(BaseModel):
    """The record as JSON; its names are those of the stored format."""

    model_config = ConfigDict(strict=True)

    version: Literal[1]
    state: Annotated[State, Field(strict=False)]
    instant: str
    snapshot: _Count
    fence: _Count
    chunks: Annotated[tuple[str, ...], Field(strict=False)]
    keepsChunks: bool  # noqa: N815
    placed: _Count
    deleted: _Count
    metadata: dict[str, str]
    preparedAt: Annotated[float, Field(allow_inf_nan=False)]  # noqa: N815
    host: str
    pid: Annotated[int, Field(ge=0, lt=2**31)]
    started: str
