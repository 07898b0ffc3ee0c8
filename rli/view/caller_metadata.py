"""What the caller of a write has kept with the commit: a transaction of its own, and strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from rli.errors import InvalidInputError
from rli.hudi.timeline.commit_metadata import SCHEMA_KEY
from rli.view.table_change import RESERVED_PREFIX, TRANSACTION_ID, TRANSACTION_NUMBER

_MOST: Final = 2**63 - 1


class CallerTransaction(NamedTuple):
    """Names one write of an application, so that a repeat of it is recognised.

    Attributes:
        application_id: not empty; each application that writes the table has one of its own.
        number: grows from one write of the application to the next, 0 or more.
    """

    application_id: str
    number: int


class ComparedBy(StrEnum):
    """What tells whether a repeat of a transaction brings the rows that were committed."""

    NOTHING = "nothing"
    """The write has no transaction."""

    KEYS = "keys"
    """The record keys: a stream may compute the other values again."""

    RECORDS = "records"
    """All values."""

    CONDITION = "condition"
    """The condition of the write, and the values that it sets: the write has no rows of a caller."""


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """The verb and the rows of a write with a transaction (docs/protocol.md, P26).

    Attributes:
        verb: "upsert", "insert", "delete" or "merge".
        compared_by: what the hashes are of.
        rows: how many, those with equal keys among them.
        hashes: the sum of the hashes of all rows, modulo 2⁶⁴, from 0: independent of their order, and of the tasks that read them.
    """

    verb: str
    compared_by: ComparedBy
    rows: int
    hashes: int

    def has_rows_of(self, other: BoundRequest) -> bool:
        """Whether both have the same rows, as far as they can be compared."""
        return self.compared_by is not other.compared_by or (self.rows, self.hashes) == (other.rows, other.hashes)


@dataclass(frozen=True, slots=True)
class CallerMetadata:
    """What a caller has kept with a commit.

    Attributes:
        transaction: of the caller; None if a repeat of the write is a write of its own.
        strings: of the caller.
        request: what the transaction is bound to; None where there is none.
    """

    transaction: CallerTransaction | None = None
    strings: Mapping[str, str] = field(default_factory=dict)
    request: BoundRequest | None = None

    @classmethod
    def of(cls, transaction: tuple[str, int] | None, metadata: Mapping[str, str] | None) -> Self:
        """What a user gave; raises ``InvalidInputError`` where it cannot be kept."""
        return cls(None if transaction is None else _checked(transaction), _strings(metadata or {}))

    @property
    def is_given(self) -> bool:
        """Whether there is anything to keep."""
        return self.transaction is not None or bool(self.strings)

    @property
    def extra(self) -> dict[str, str]:
        """Entries of a commit's extra metadata."""
        if self.transaction is None:
            return dict(self.strings)
        return {
            **self.strings,
            TRANSACTION_ID: self.transaction.application_id,
            TRANSACTION_NUMBER: str(self.transaction.number),
        }


NO_METADATA: Final = CallerMetadata()


def _checked(given: object) -> CallerTransaction:
    match given:
        case (str(application_id), int(number)) if _is_string(application_id) and _is_number(number):
            return CallerTransaction(application_id, int(number))
    raise InvalidInputError(
        f"not a transaction: transaction={given!r}",
        remedy=(
            "give the application's id, a string that is not empty and has no lone surrogates, and a number from 0 to "
            "2**63 - 1, such as ('job-7', 42)"
        ),
    )


def _is_string(value: object) -> bool:
    """Whether a value is a string that files can keep: UTF-8 has no form for a lone surrogate."""
    return isinstance(value, str) and bool(value) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_number(number: int) -> bool:
    return not isinstance(number, bool) and 0 <= number <= _MOST


def _strings(metadata: Mapping[Any, Any]) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(
            f"metadata must be names and strings: given={type(metadata).__name__}", remedy="give a dict of strings"
        )
    for name, value in metadata.items():
        if not (_is_string(name) and (value == "" or _is_string(value))):
            raise InvalidInputError(
                f"metadata must be strings without lone surrogates: name={name!r} value={value!r}",
                remedy="convert both to strings",
            )
        if name == SCHEMA_KEY or name.startswith(RESERVED_PREFIX):
            raise InvalidInputError(
                f"the name is reserved: metadata={name!r}",
                remedy=f"choose another name than {SCHEMA_KEY!r}, not beginning with {RESERVED_PREFIX!r}",
            )
    return dict(metadata)
