"""What callers choose for a write, whatever it does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from rli.commit.step_clock import OnStep
from rli.hudi.table_keys import TableKeys
from rli.model import OnDuplicates, Scope, Step
from rli.view.caller_metadata import NO_METADATA, BoundRequest, CallerMetadata, ComparedBy
from rli.view.definition import TableDefinition
from rli.write.choices import chosen_attempts, one_of
from rli.write.rows.keying import RecordKeying
from rli.write.rows.tally import Tally

Formed = TypeVar("Formed", bound=RecordKeying)


def pass_over(_: Step) -> None:
    """Takes the report of a step and does nothing."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Choices of a caller; see ``Table.upsert`` for what they mean.

    Attributes:
        attempts: how often the write is tried at most; None for what the table's settings say.
        caller: what is kept with the commit.
        on_step: called after each step.
        on_duplicates: what happens if several records have one key.
        repeats_by: what a repeat of the caller's transaction is compared by.
        dry_run: whether the write is only to tell what it would do.
        patience: seconds; for how long the write waits for the lease at most, whenever it needs it.
    """

    attempts: int | None = None
    caller: CallerMetadata = NO_METADATA
    on_step: OnStep = pass_over
    on_duplicates: OnDuplicates = OnDuplicates.SKIP
    repeats_by: ComparedBy = ComparedBy.RECORDS
    dry_run: bool = False
    patience: float = math.inf

    @classmethod
    def of(
        cls,
        attempts: int | None,
        transaction: tuple[str, int] | None,
        metadata: Mapping[str, str] | None,
        on_step: OnStep,
        on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
        *,
        dry_run: bool = False,
    ) -> Self:
        """The arguments of a write as users give them; raises ``InvalidInputError`` for what cannot be kept, or no choice."""
        caller = CallerMetadata.of(transaction, metadata)
        return cls(attempts, caller, on_step, one_of(OnDuplicates, "on_duplicates", on_duplicates), dry_run=dry_run)

    @property
    def compared_by(self) -> ComparedBy:
        """What the rows of the write are hashed by: nothing in a write that has no transaction."""
        return ComparedBy.NOTHING if self.caller.transaction is None else self.repeats_by

    def keying(self, kind: type[Formed], keys: TableKeys, table: TableDefinition, scope: Scope) -> Formed:
        """Forms keyed records as the caller chose.

        Args:
            kind: what becomes of several records with one key.
            keys: forms them.
            table: the table.
            scope: where a key is unique.
        """
        ordering_field = table.properties.ordering_field
        return kind(keys, ordering_field, scope, self.on_duplicates, self.compared_by)

    def caller_of(self, verb: str, received: Tally) -> CallerMetadata:
        """What is kept with the commit, the transaction bound to its request.

        Args:
            verb: such as ``upsert``.
            received: of the request's rows; see ``Request.received``.
        """
        if self.caller.transaction is None:
            return self.caller
        request = BoundRequest(verb, self.compared_by, received.keys, received.unsigned)
        return replace(self.caller, request=request)

    def attempts_of(self, table: TableDefinition) -> int:
        """How often the write is tried at most; raises ``InvalidInputError`` for fewer than one attempt."""
        return chosen_attempts(table.require_settings(), self.attempts)
