"""One record of the commit log, and its name among the control records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from rli.errors import CorruptIndexError
from rli.json_text import parse_json
from rli.model import FileGroupId

RECORD_PREFIX: Final = "commit/"
"""Prefix of the names of the log's control records."""

_RECORD_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One commit as the index knows it.

    Attributes:
        instant: the instant of the table's timeline, or of the transaction; None for a repair.
        action: the action of the timeline, or "bootstrap", "repair", "transaction", "sweep".
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
                "version": _RECORD_VERSION,
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
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_json(cls, first_sequence: int, content: bytes) -> LogRecord:
        """Read a record; raises ``CorruptIndexError`` if it is damaged, or of another version."""
        try:
            fields = parse_json(content)
            if fields["version"] != _RECORD_VERSION:
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
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptIndexError(
                f"a record of the index's commit log is damaged: sequence={first_sequence}; bootstrap the index again"
            ) from error


def record_name(sequence: int) -> str:
    """The name of the control record whose first sequence this is."""
    return f"{RECORD_PREFIX}{sequence:010d}"


def sequence_of(name: str) -> int:
    """The first sequence of the record with this name."""
    return int(name.removeprefix(RECORD_PREFIX))
