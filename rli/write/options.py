"""What callers choose for a write, whatever it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from rli.commit.write_transaction import OnStep
from rli.model import Step
from rli.view.caller_metadata import NO_METADATA, CallerMetadata
from rli.view.definition import TableDefinition
from rli.write.choices import chosen_attempts


def pass_over(_: Step) -> None:
    """Takes the report of a step and does nothing."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Choices of a caller; see ``Table.upsert`` for what they mean.

    Attributes:
        attempts: how often the write is tried at most; None for what the table's settings say.
        caller: what is kept with the commit.
        on_step: called after each step.
    """

    attempts: int | None = None
    caller: CallerMetadata = NO_METADATA
    on_step: OnStep = pass_over

    @classmethod
    def of(
        cls,
        attempts: int | None,
        transaction: tuple[str, int] | None,
        metadata: Mapping[str, str] | None,
        on_step: OnStep,
    ) -> Self:
        """The arguments of a write as users give them; raises ``InvalidInputError`` for what cannot be kept."""
        return cls(attempts, CallerMetadata.of(transaction, metadata), on_step)

    def attempts_of(self, table: TableDefinition) -> int:
        """How often the write is tried at most; raises ``InvalidInputError`` for fewer than one attempt."""
        return chosen_attempts(table.require_settings(), self.attempts)
