"""Options of the format ``rli``: which view of which table is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rli.errors import InvalidInputError


class View(StrEnum):
    """What is read of a table."""

    RECORDS = "records"
    CHANGES = "changes"
    TIMELINE = "timeline"
    FILES = "files"
    INDEXES = "indexes"


_TAKEN: Final = {
    View.RECORDS: ("columns", "filters", "as_of"),
    View.CHANGES: ("columns", "filters", "since", "until", "images", "max_commits_per_batch"),
    View.TIMELINE: (),
    View.FILES: ("as_of",),
    View.INDEXES: (),
}
"""Which options a view takes beside ``path`` and ``view``."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a caller wants to read. Picklable.

    Attributes:
        path: of the table.
        view: of it.
        columns: names; None for all but the meta columns.
        filters: SQL; None for all rows.
        as_of: an instant or a time; None for now.
        since: as for ``Table.changes``.
        until: as for ``Table.changes``.
        images: as for ``Table.changes``.
        max_commits_per_batch: of a stream; None for no limit.
    """

    path: str
    view: View
    columns: tuple[str, ...] | None = None
    filters: str | None = None
    as_of: str | None = None
    since: str | None = None
    until: str | None = None
    images: str = "after"
    max_commits_per_batch: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options as Spark gives them: strings, under names in lower case.

        Raises:
            InvalidInputError: the path is missing, a view or an option does not exist, or they do not fit each other.
        """
        given = {name.lower(): value for name, value in options.items()}
        path, view = given.pop("path", ""), _view(given.pop("view", View.RECORDS))
        if not path:
            raise InvalidInputError("no path of a table is given", remedy='name it: .load("/path/of/table")')
        unknown = sorted(given.keys() - set(_TAKEN[view]))
        if unknown:
            raise InvalidInputError(
                f"the view does not take these options: view={view} options={unknown}",
                remedy=f"leave them out; it takes {', '.join(_TAKEN[view]) or 'none'}",
            )
        names, most = given.pop("columns", None), given.pop("max_commits_per_batch", None)
        columns = None if names is None else _columns(names)
        return cls(path, view, columns, **given, max_commits_per_batch=None if most is None else _limit(most))


def _view(given: str) -> View:
    try:
        return View(given.lower())
    except ValueError:
        raise InvalidInputError(f"no such view: view={given}", remedy=f"choose one of {', '.join(View)}") from None


def _limit(given: str) -> int:
    if not given.isascii() or not given.isdecimal() or not int(given):
        raise InvalidInputError(
            f"not a number of commits: max_commits_per_batch={given}", remedy="give a whole number, 1 or more"
        )
    return int(given)


def _columns(given: str) -> tuple[str, ...]:
    """Names, separated by commas or as a list in JSON."""
    if not given.lstrip().startswith("["):
        return tuple(name.strip() for name in given.split(","))
    try:
        names = json.loads(given)
    except json.JSONDecodeError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"not a list of strings in JSON: columns={given}", remedy='write ["id", "city"]')
    return tuple(names)
