"""The error tree, grouped by what a caller does about an error.

Every error says what happened, on what (values last, as ``key=value``), and what to do: its remedy, which is a field, and
ends the message. The error of a driver or of the file system is kept as ``__cause__``. Every class survives pickling, because executors send
their errors to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

NOTHING_WRITTEN: Final = "nothing was written"
"""What the error of a write says if the table is as it was before."""


class RliError(Exception):
    """Base of every error that rli raises on purpose.

    >>> import rli
    >>> error = rli.SettingsError("no such option: option=nme", remedy="use name")
    >>> str(error)
    'no such option: option=nme; use name'
    >>> error.problem, error.remedy
    ('no such option: option=nme', 'use name')

    Args:
        problem: what happened, and on what.
        remedy: what to do; None if nothing can be done.

    Attributes:
        remedy: as the argument.
    """

    def __init__(self, problem: str = "", *, remedy: str | None = None) -> None:
        super().__init__(problem if remedy is None else f"{problem}; {remedy}")
        self.remedy = remedy

    @property
    def problem(self) -> str:
        """What happened, and on what."""
        return str(self) if self.remedy is None else str(self).removesuffix(f"; {self.remedy}")

    def with_problem(self, problem: str) -> Self:
        """The same error, with other words for what happened, and on what."""
        self.args = (problem if self.remedy is None else f"{problem}; {self.remedy}",)
        return self


def as_nothing_written(error: Exception) -> Exception:
    """The error, with the words that nothing was written."""
    return with_words(error, NOTHING_WRITTEN)


def with_words(error: Exception, words: str) -> Exception:
    """The same error, whose message, or a note of another library's error, says one thing more."""
    if isinstance(error, RliError):
        return error if words in str(error) else error.with_problem(f"{error.problem} ({words})")
    error.add_note(words)
    return error


# Fix the input -------------------------------------------------------------------------------------------------


class InvalidInputError(RliError):
    """The data or the arguments of a call cannot be used; nothing was written.

    Attributes:
        row: of the records that cannot be used the first one, counted from 0, which the message names as ``row=…``; None if the
            error is of no single record.
    """

    def __init__(self, problem: str = "", *, remedy: str | None = None, row: int | None = None) -> None:
        super().__init__(problem, remedy=remedy)
        self.row = row


class InvalidKeyError(InvalidInputError):
    """A record key or a partition value is null, empty where not allowed, repeated, or not text."""


class SchemaError(InvalidInputError):
    """A column is missing, has a type that cannot be written, or does not fit the table's schema."""


class PartitionChangeError(InvalidInputError):
    """A record came with another partition value while ``on_partition_change="fail"``."""


class RecordExistsError(InvalidInputError):
    """A record was to be inserted whose key the table holds, while ``on_existing="fail"``."""


class RepeatedValueError(InvalidInputError):
    """A second record was to have a value of a column whose index allows one record for each value."""


class TransactionMismatchError(InvalidInputError):
    """The transaction of a write was committed with another request, or a transaction of a greater number was."""


class SettingsError(InvalidInputError):
    """A setting, a URL or an option is wrong or unknown."""


# Name the right thing ------------------------------------------------------------------------------------------


class TableNotFoundError(RliError):
    """There is no table at the path."""


class TableExistsError(RliError):
    """A table was to be created where one exists."""


class IndexNotFoundError(RliError):
    """There is no index at the URL."""


class IndexExistsError(RliError):
    """An index was to be created where one exists."""


class InstantNotFoundError(RliError):
    """The timeline holds no such instant, or not in the state that the call needs, or others have removed its files."""


class IndexMismatchError(RliError):
    """The index exists but belongs to another table or was made with other settings."""


class UnsupportedTableError(RliError):
    """The table is sound, but of a kind that rli does not read or does not write."""


# Bring index and table together --------------------------------------------------------------------------------


class IndexNotReadyError(RliError):
    """The index has not seen all commits of the table: sync or bootstrap it."""


class CorruptIndexError(RliError):
    """The index contradicts the table or itself: verify it, then repair or bootstrap it."""


class CorruptTableError(RliError):
    """A file of the table is damaged, missing, or not in the format that its name promises."""


class RepeatedKeyError(CorruptTableError):
    """The table holds a record key more than once where its index wants the key once."""


# Try again -----------------------------------------------------------------------------------------------------


class ConflictError(RliError):
    """Another writer committed something that this write depends on; nothing of this write is visible.

    Attributes:
        keys: a sample of the record keys in conflict, at most ten.
        key_count: how many record keys are in conflict.
        instants: the instants that got there first.
    """

    def __init__(
        self,
        problem: str,
        *,
        keys: tuple[str, ...] = (),
        key_count: int = 0,
        instants: tuple[str, ...] = (),
        remedy: str | None = None,
    ) -> None:
        super().__init__(problem, remedy=remedy)
        self.keys = keys
        self.key_count = key_count
        self.instants = instants

    def __reduce__(self) -> tuple[object, ...]:
        state = {"keys": self.keys, "key_count": self.key_count, "instants": self.instants, "remedy": self.remedy}
        return _restore_conflict, (type(self), self.problem, state)


class LeaseLostError(ConflictError):
    """This writer was paused for so long that another one took the lease over."""


class LeaseBusyError(RliError):
    """Another process kept the lease for longer than the caller was to wait."""


class BufferFullError(RliError):
    """A writer's buffer had no room for rows in the time that the caller was to wait; none of these rows was taken."""


class VoidAttemptError(RliError):
    """The tasks of a write had other records than requested; nothing of this write is visible."""


class ExecutorLostError(RliError):
    """Spark lost the processes of a task as often as it repeats a task; nothing that the call was to write is visible."""


class UndecidedCommitError(RliError):
    """Storage or store failed in the one step that publishes a commit. What comes next decides whether it stands: see ``remedy``."""


class StoreUnavailableError(RliError):
    """The store does not answer, is full, or refuses to write; what was acknowledged before is kept."""


class StoreReadOnlyError(StoreUnavailableError):
    """This process may read the store, but not write it."""


class StoreRestartedError(StoreUnavailableError):
    """A server of the store was restarted or replaced, and may have lost commits that this call goes by; call again."""


def _restore_conflict(kind: type[ConflictError], problem: str, state: Mapping[str, Any]) -> ConflictError:
    return kind(problem, **state)
