"""One record of the commit log, and its name among the control records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from rli.errors import CorruptIndexError
from rli.index.record import staging
from rli.json_text import parse_json
from rli.model import FileGroupId

RECORD_PREFIX: Final = "commit/"
"""Prefix of the names of the log's control records."""

TRANSACTION: Final = "transaction"
"""The action of a transaction on the index alone."""

_BLOCK_DIGITS: Final = 3
"""Records whose sequences differ in so many digits at most are read together."""

PREPARE: Final = "prepare"
"""The action of a record that announces a prepared transaction (P35); it brings no changes."""

_RECORD_VERSION: Final = 1
_WITH_NEWER_PARTS: Final = 2
"""The version of records that an older rli must not pass over: they announce, or name their chunks."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One commit as the index knows it.

    Attributes:
        instant: the instant of the table's timeline, or of the transaction; None for a repair.
        action: the action of the timeline, or "bootstrap", "repair", "transaction", "prepare", "sweep".
        first_sequence: the first commit sequence that the record owns; it owns ``len(located_at)`` of them.
        located_at: for each sequence, the instant that look-ups report for its entries.
        first_file_group: number of the first file group that the record introduces.
        file_groups: the file groups that it introduces, in the order of their numbers.
        writer: identity of the write, by which a writer whose append got no answer recognises its record.
        covers: further instants whose changes this record brings into the index (bootstrap).
        staged_chunks: how many chunks of changes lie in the store (transactions on the index alone).
        undoes: instants whose changes this record takes back, the newest first (rollback, restore).
        keeps_chunks: whether the chunks stay for a while after they were applied.
        swept: writers whose staged changes are removed: none of them appends a record behind this one (P30).
        metadata: names and texts that the caller of a transaction has kept with it.
        placed: record keys that a transaction gave a location; None in records of older versions.
        deleted: record keys that a transaction removed; None in records of older versions.
        chunks: the names of its chunks, if not all of them are numbered; ``staged_chunks`` is 0 then.
    """

    instant: str | None
    action: str
    first_sequence: int
    located_at: tuple[str, ...]
    first_file_group: int
    file_groups: tuple[FileGroupId, ...]
    writer: str
    covers: tuple[str, ...] = ()
    staged_chunks: int = 0
    undoes: tuple[str, ...] = ()
    keeps_chunks: bool = False
    swept: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    placed: int | None = None
    deleted: int | None = None
    chunks: tuple[str, ...] = ()

    @property
    def chunk_names(self) -> tuple[str, ...]:
        """The names of all its chunks, in the order in which they were staged."""
        return self.chunks or staging.numbered(self.staged_chunks)

    @property
    def instants(self) -> tuple[str, ...]:
        """All instants whose changes the record brings."""
        return self.covers if self.instant is None else (*self.covers, self.instant)

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + len(self.located_at) - 1

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": _WITH_NEWER_PARTS if self.chunks or self.action == PREPARE else _RECORD_VERSION,
                "instant": self.instant,
                "action": self.action,
                "locatedAt": self.located_at,
                "firstFileGroup": self.first_file_group,
                "fileGroups": self.file_groups,
                "writer": self.writer,
                "covers": self.covers,
                "stagedChunks": self.staged_chunks,
                **({"undoes": self.undoes} if self.undoes else {}),
                **({"keepsChunks": True} if self.keeps_chunks else {}),
                **({"swept": self.swept} if self.swept else {}),
                **({"metadata": dict(self.metadata)} if self.metadata else {}),
                **({} if self.placed is None else {"placed": self.placed}),
                **({} if self.deleted is None else {"deleted": self.deleted}),
                **({"chunks": self.chunks} if self.chunks else {}),
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_json(cls, first_sequence: int, content: bytes) -> LogRecord:
        """Read a record; raises ``CorruptIndexError`` if it is damaged, or of another version."""
        try:
            fields = parse_json(content)
            if fields["version"] not in {_RECORD_VERSION, _WITH_NEWER_PARTS}:
                raise CorruptIndexError(
                    f"a record of the index's commit log has another version: version={fields['version']} "
                    f"sequence={first_sequence}; use the version of rli that wrote it"
                )
            return cls(
                instant=fields["instant"],
                action=fields["action"],
                first_sequence=first_sequence,
                located_at=tuple(fields["locatedAt"]),
                first_file_group=fields["firstFileGroup"],
                file_groups=tuple(FileGroupId(*names) for names in fields["fileGroups"]),
                writer=fields["writer"],
                covers=tuple(fields["covers"]),
                staged_chunks=fields["stagedChunks"],
                undoes=tuple(fields.get("undoes", ())),
                keeps_chunks=fields.get("keepsChunks") is True,
                swept=tuple(fields.get("swept", ())),
                metadata=tuple(sorted(fields.get("metadata", {}).items())),
                placed=fields.get("placed"),
                deleted=fields.get("deleted"),
                chunks=tuple(fields.get("chunks", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptIndexError(
                f"a record of the index's commit log is damaged: sequence={first_sequence}; bootstrap the index again"
            ) from error


def record_name(sequence: int) -> str:
    """The name of the control record whose first sequence this is."""
    return f"{RECORD_PREFIX}{sequence:010d}"


def block_of(sequence: int) -> str:
    """How the names of all records in one block begin; a block is read in one request."""
    return record_name(sequence)[:-_BLOCK_DIGITS]


def bounds_of_block(sequence: int) -> tuple[int, int]:
    """The first sequence of a block, and that of the next one."""
    size = 10**_BLOCK_DIGITS
    first = sequence - sequence % size
    return first, first + size


def sequence_of(name: str) -> int:
    """The first sequence of the record with this name."""
    return int(name.removeprefix(RECORD_PREFIX))
