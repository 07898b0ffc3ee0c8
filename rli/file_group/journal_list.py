"""Which journal files of a commit count: those of the attempts that the driver accepted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rli.errors import CorruptTableError, IndexNotReadyError
from rli.file_group.journal import SECTIONS, Journal
from rli.json_text import parse_json
from rli.locations import LocationUpdate
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.paths import journal_file, journal_folder

_LIST: Final = "journals.json"
_LIST_VERSION: Final = 1

SMALL_JOURNALS: Final = 4 << 20
"""Bytes of a commit's journals up to which the process that finds the commit applies it: a job of an engine takes
longer to start than so little work takes."""

_LEAST_SHARE: Final = 1 << 20
"""Bytes of journals of a share, at least: a task takes longer to start than to apply fewer."""


@dataclass(frozen=True, slots=True)
class JournalShare:
    """What is applied together. Picklable.

    Attributes:
        journals: of one commit.
        sections: the sections that are read of each journal; None where whole journals are read.
    """

    journals: Sequence[Journal]
    sections: range | None = None

    def changes(self, storage: Storage) -> Iterator[LocationUpdate]:
        """Where the commit puts the keys."""
        for journal in self.journals:
            yield from journal.changes(storage, self.sections)


def save_journals(storage: Storage, instant: str, journals: Iterable[Journal], *, tell_updates: bool = False) -> str:
    """Keep the list of a commit's journals, before the commit is published; returns its path.

    Args:
        storage: of the table.
        instant: of the commit.
        journals: those that count.
        tell_updates: whether they tell which records were updated, for an index whose keys expire.
    """
    kept = list(journals)
    listed = [[journal.name, *journal.group] for journal in kept]
    in_sections = [number for number, journal in enumerate(kept) if journal.is_in_sections]
    told = {"updates": tell_updates, "in_sections": in_sections}
    content = json.dumps(
        {"version": _LIST_VERSION, "journals": listed, **{name: value for name, value in told.items() if value}}
    )
    path = journal_file(instant, _LIST)
    storage.write_bytes(path, content.encode())
    return path


def load_journals(storage: Storage, instant: str) -> list[Journal] | None:
    """The journals of a commit; None if it has none, because another engine made it."""
    listed = _load_list(storage, instant)
    return None if listed is None else listed[0]


def journals_tell_updates(storage: Storage, instant: str) -> bool:
    """Whether a commit has journals, and these tell which records were updated."""
    listed = _load_list(storage, instant)
    return listed is not None and listed[1]


def _load_list(storage: Storage, instant: str) -> tuple[list[Journal], bool] | None:
    path = journal_file(instant, _LIST)
    content = storage.read_bytes(path)
    if content is None:
        return None
    try:
        fields = parse_json(content)
        if fields["version"] != _LIST_VERSION:
            raise CorruptTableError(
                f"a list of journals has another version: file={path} version={fields['version']}",
                remedy="use the version of rli that wrote it",
            )
        in_sections = set(fields.get("in_sections", ()))
        journals = [
            Journal(instant, name, FileGroupId(*group), number in in_sections)
            for number, (name, *group) in enumerate(fields["journals"])
        ]
        return journals, fields.get("updates") is True
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptTableError(
            f"a list of journals is damaged: file={path}", remedy="bootstrap the index again"
        ) from error


def require_journals(storage: Storage, instant: str) -> list[Journal]:
    """The journals of a commit that had some; raises ``IndexNotReadyError`` if they are gone."""
    journals = load_journals(storage, instant)
    if journals is None:
        raise IndexNotReadyError(
            f"the journal of a commit is gone: instant={instant}",
            remedy="bootstrap the index again: rli index bootstrap TABLE",
        )
    return journals


def readable_journals(storage: Storage, instant: str) -> list[Journal] | None:
    """The journals of a commit if each of them can be read, else None."""
    try:
        journals = load_journals(storage, instant)
        for journal in journals or ():
            journal.prior_groups(storage)
    except CorruptTableError:
        return None
    return journals


def shares_of(
    storage: Storage,
    journals: Sequence[Journal],
    share_bytes: int,
    *,
    side_by_side: bool,
    at_once: int = 1,
    least_bytes: int = _LEAST_SHARE,
) -> list[JournalShare]:
    """The journals of a commit in shares of a size or more, but for the last one.

    The shares are smaller if there would be fewer shares than tasks at a time.

    Of journals that are in sections, a share has the same sections of each of its journals, and may be larger.

    Args:
        storage: of the table.
        journals: of the commit.
        share_bytes: of a share.
        side_by_side: whether several processes apply the shares; one process takes all journals without sections together.
        at_once: number of tasks at a time, each of which is to have a share.
        least_bytes: of a share, whatever the number of tasks.
    """
    in_sections = [journal for journal in journals if journal.is_in_sections]
    if not side_by_side and not in_sections:
        return [JournalShare(journals)]
    sizes = {
        file.path: file.size for journal in journals[:1] for file in storage.list_files(journal_folder(journal.instant))
    }
    total = sum(sizes.values())
    share_bytes = min(share_bytes, max(total // at_once, least_bytes))
    if total <= share_bytes:
        return [JournalShare(journals)]
    whole = [journal for journal in journals if not journal.is_in_sections]
    together = [JournalShare(whole)] if whole else []
    return [
        *_shares_of_sections(in_sections, sizes, share_bytes, at_once, least_bytes),
        *(_shares_of_whole(whole, sizes, share_bytes) if side_by_side else together),
    ]


def _shares_of_sections(
    journals: Sequence[Journal], sizes: Mapping[str, int], share_bytes: int, at_once: int, least_bytes: int
) -> Iterator[JournalShare]:
    if not journals:
        return
    total = sum(sizes.get(journal.path, 0) for journal in journals)
    shares = max(1, total // share_bytes)
    count = min(shares, SECTIONS)
    even = -(-count // at_once) * at_once
    if count > 1 and even <= min(SECTIONS, total // least_bytes):
        # Otherwise some tasks have a share left while others have none.
        count = even
    # A part of the store is written once for each group: there are no more groups than tasks at a time need.
    groups = max(1, min(shares, at_once, len(journals) * SECTIONS) // SECTIONS)
    for number in range(count):
        sections = range(SECTIONS * number // count, SECTIONS * (number + 1) // count)
        for group in range(groups):
            yield JournalShare(journals[group::groups], sections)


def _shares_of_whole(journals: Sequence[Journal], sizes: Mapping[str, int], share_bytes: int) -> list[JournalShare]:
    shares: list[list[Journal]] = []
    held = share_bytes
    for journal in journals:
        if held >= share_bytes:
            shares.append([])
            held = 0
        shares[-1].append(journal)
        held += sizes.get(journal.path, 0)
    return [JournalShare(share) for share in shares]


def journal_bytes(storage: Storage, instants: Iterable[str]) -> int:
    """Size of all journals of some commits."""
    return sum(file.size for instant in instants for file in storage.list_files(journal_folder(instant)))
