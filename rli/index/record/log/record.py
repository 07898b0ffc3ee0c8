"""One record of the commit log, and its name among the control records."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Final, Self

from rli.errors import CorruptIndexError
from rli.index.record.log.actions import PREPARE
from rli.index.record.log.staged import Staged
from rli.json_text import parse_json
from rli.model import FileGroupId

RECORD_PREFIX: Final = "commit/"
"""Prefix of the names of the log's control records."""

_BLOCK_DIGITS: Final = 3
"""Records whose sequences differ in so many digits at most are read together."""

_RECORD_VERSION: Final = 1
_WITH_NEWER_PARTS: Final = 2
"""The version of records that an older rli must not pass over: they announce, or name their chunks."""


_NOTHING_STAGED: Final = Staged()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDraft:
    """A record that is to be appended: all that its writer says. The log numbers its sequences and file groups.

    Attributes:
        instant: the instant of the table's timeline, or of the transaction; None for a repair.
        action: the action of the timeline, or one of ``rli.index.record.log.actions``.
        writer: identity of the write, by which a writer whose append got no answer recognises its record.
        located_at: for each sequence that the record needs, the instant that look-ups report for its entries.
        file_groups: the file groups that the commit's entries name; known ones may be among them.
        covers: further instants whose changes this record brings into the index (bootstrap).
        undoes: instants whose changes this record takes back, the newest first (rollback, restore).
        swept: writers whose staged changes are removed: none of them appends a record behind this one (P30).
        staged: changes that lie in the store (transactions on the index alone).
        metadata: names and strings that the caller of a transaction has kept with it, in order.
    """

    instant: str | None
    action: str
    writer: str
    located_at: tuple[str, ...]
    file_groups: tuple[FileGroupId, ...] = ()
    covers: tuple[str, ...] = ()
    undoes: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()
    staged: Staged = _NOTHING_STAGED
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def instants(self) -> tuple[str, ...]:
        """All instants whose changes the record brings."""
        return self.covers if self.instant is None else (*self.covers, self.instant)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord(RecordDraft):
    """One commit as the index knows it: a draft with its numbers, which introduces all of its file groups.

    Attributes:
        first_sequence: the first commit sequence that the record owns; it owns ``len(located_at)`` of them.
        first_file_group: number of the first of its file groups; the others follow in order.
    """

    first_sequence: int
    first_file_group: int

    @classmethod
    def of(cls, draft: RecordDraft, sequence: int, file_group: int, introduced: tuple[FileGroupId, ...]) -> Self:
        """The record of a draft.

        Args:
            draft: of the record.
            sequence: the next commit sequence.
            file_group: the next number of a file group.
            introduced: the file groups of the draft that have no number yet.
        """
        given = {part.name: getattr(draft, part.name) for part in fields(RecordDraft)}
        given["file_groups"] = introduced
        return cls(**given, first_sequence=sequence, first_file_group=file_group)

    @property
    def last_sequence(self) -> int:
        return self.first_sequence + len(self.located_at) - 1

    def to_json(self) -> bytes:
        staged = self.staged
        return json.dumps(
            {
                # The lower version wherever an older rli reads the record correctly: one record of the higher version
                # locks it out of the index.
                "version": _RECORD_VERSION if staged.is_numbered and self.action != PREPARE else _WITH_NEWER_PARTS,
                "instant": self.instant,
                "action": self.action,
                "locatedAt": self.located_at,
                "firstFileGroup": self.first_file_group,
                "fileGroups": self.file_groups,
                "writer": self.writer,
                "covers": self.covers,
                "stagedChunks": len(staged.chunks) if staged.is_numbered else 0,
                **({"undoes": self.undoes} if self.undoes else {}),
                **({"keepsChunks": True} if staged.keeps_chunks else {}),
                **({"swept": self.swept} if self.swept else {}),
                **({"metadata": dict(self.metadata)} if self.metadata else {}),
                **({} if staged.placed is None else {"placed": staged.placed}),
                **({} if staged.deleted is None else {"deleted": staged.deleted}),
                **({} if staged.is_numbered else {"chunks": staged.chunks}),
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_json(cls, first_sequence: int, content: bytes) -> LogRecord:
        """Read a record; raises ``CorruptIndexError`` if it is damaged, or of another version."""
        try:
            stored = parse_json(content)
            if stored["version"] not in {_RECORD_VERSION, _WITH_NEWER_PARTS}:
                raise CorruptIndexError(
                    f"a record of the index's commit log has another version: version={stored['version']} "
                    f"sequence={first_sequence}",
                    remedy="use the version of rli that wrote it",
                )
            return cls(
                instant=stored["instant"],
                action=stored["action"],
                first_sequence=first_sequence,
                located_at=tuple(stored["locatedAt"]),
                first_file_group=stored["firstFileGroup"],
                file_groups=tuple(FileGroupId(*names) for names in stored["fileGroups"]),
                writer=stored["writer"],
                covers=tuple(stored["covers"]),
                undoes=tuple(stored.get("undoes", ())),
                swept=tuple(stored.get("swept", ())),
                staged=Staged.of_json(stored),
                metadata=tuple(sorted(stored.get("metadata", {}).items())),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptIndexError(
                f"a record of the index's commit log is damaged: sequence={first_sequence}",
                remedy="bootstrap the index again",
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
