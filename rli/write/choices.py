"""What a call chooses for one write, or else what the table's settings say."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from rli.errors import InvalidInputError
from rli.model import OnPartitionChange
from rli.settings import TableSettings

Choice = TypeVar("Choice", bound=StrEnum)


def chosen_partition_change(settings: TableSettings, chosen: OnPartitionChange | str | None) -> OnPartitionChange:
    """What becomes of records whose partition changed; None for the table's own choice.

    Raises:
        InvalidInputError: there is no such choice.
    """
    return settings.on_partition_change if chosen is None else one_of(OnPartitionChange, "on_partition_change", chosen)


def one_of(kind: type[Choice], name: str, chosen: str) -> Choice:
    """A choice of an argument; raises ``InvalidInputError`` if there is no such choice."""
    try:
        return kind(chosen)
    except ValueError as error:
        raise InvalidInputError(
            f"no such choice: {name}={chosen!r}", remedy=f"choose one of {[str(item) for item in kind]}"
        ) from error


def chosen_attempts(settings: TableSettings, chosen: int | None) -> int:
    """How often a write is tried; None for the table's own choice.

    Raises:
        InvalidInputError: it is less than 1.
    """
    if chosen is None:
        return settings.write_attempts
    if chosen < 1:
        raise InvalidInputError(f"a write needs at least one attempt: attempts={chosen}", remedy="give 1 or more")
    return chosen
