"""Errors of a file's records, with the file, and the line where a record is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rli.cli.files.given_file import GivenFile
from rli.errors import InvalidInputError, RliError


@contextmanager
def failures_placed(file: GivenFile, place_of: Callable[[int], str]) -> Iterator[None]:
    """Let errors name a file: ``file=day1.csv:3`` in place of the number of a row, or behind what happened.

    Args:
        file: whose records are worked on.
        place_of: says where a row is, for messages.
    """
    try:
        yield
    except RliError as error:
        row = error.row if isinstance(error, InvalidInputError) else None
        if row is not None:
            raise error.with_problem(error.problem.replace(f"row={row}", place_of(row), 1)) from error.__cause__
        if file.place(None) in str(error):
            raise
        raise error.with_problem(f"{error.problem} {file.place(None)}") from error.__cause__
