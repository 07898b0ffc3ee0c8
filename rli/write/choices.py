"""What a call chooses for one write, or else what the table's settings say."""

from __future__ import annotations

from rli.errors import InvalidInputError
from rli.model import OnPartitionChange
from rli.settings import TableSettings


def chosen_partition_change(settings: TableSettings, chosen: OnPartitionChange | str | None) -> OnPartitionChange:
    """What becomes of records whose partition changed; None for the table's own choice.

    Raises:
        InvalidInputError: there is no such choice.
    """
    if chosen is None:
        return settings.on_partition_change
    try:
        return OnPartitionChange(chosen)
    except ValueError as error:
        raise InvalidInputError(
            f"no such choice: on_partition_change={chosen!r}; choose one of {[str(item) for item in OnPartitionChange]}"
        ) from error


def chosen_attempts(settings: TableSettings, chosen: int | None) -> int:
    """How often a write is tried; None for the table's own choice.

    Raises:
        InvalidInputError: it is less than 1.
    """
    if chosen is None:
        return settings.write_attempts
    if chosen < 1:
        raise InvalidInputError(f"a write needs at least one attempt: attempts={chosen}; give 1 or more")
    return chosen
