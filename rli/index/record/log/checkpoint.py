"""Checkpoints: the commit log in columns, so that opening it does not read all of its records (P23).

A checkpoint stands for all records up to a sequence. It is a control record that lists *pages*; a page has the names of
a run of records as Arrow columns, and is read when one of them is asked for. Pages are written before the checkpoint
that lists them, are named by their content, and never change. The records stay: they are the truth, a checkpoint is a
quicker way to read it, and whatever is wrong with one, the records are read instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Final

import numpy as np

from rli.errors import CorruptIndexError
from rli.index.record.log.checkpoint_listing import intent_json, listing_json, parse_listing
from rli.index.record.log.checkpoint_page import PAGES, Page, PageEntry, digest, page_bytes, page_of, parse_page
from rli.index.record.log.known_groups import KnownGroups
from rli.index.record.log.record import LogRecord, bounds_of_block, record_name
from rli.index.record.log.stored_records import records_between
from rli.model import FileGroupId
from rli.store.contract import Store

CHECKPOINT: Final = "checkpoint"
"""Name of the control record of the newest checkpoint."""

_LARGEST_ANCHOR: Final = 64 << 10
_MOST_READ_ALONE: Final = 16
"""Pages; more of them are read together with their neighbours."""

_BLOCK_DIGITS: Final = 6
"""Pages whose first sequences begin with the same digits, of ten, are read together: those of 10,000 sequences."""


@dataclass(frozen=True)
class Checkpoint:
    """All records of a log up to a sequence. Threads may share it: what it reads of its pages, it keeps.

    Attributes:
        store: where it is.
        content: of its control record; empty for the checkpoint before all records.
        head: the last sequence that it stands for.
        group_count: how many file groups its records introduced.
        last_of: for each action, the last record with an instant: its first sequence and the instant.
        anchor: first sequence and digest of one of its records, by which it is told whether it is of this log.
        pages: in order.
        stored: the content that its control record had when it was read; None where there was no record.
        shown: ``stored`` if that is of this log; else empty.
        unwritten: pages that are not in the store yet, by name.
    """

    store: Store
    content: bytes = b""
    head: int = 0
    group_count: int = 0
    last_of: tuple[tuple[str, int, str], ...] = ()
    anchor: tuple[int, str] | None = None
    pages: tuple[PageEntry, ...] = ()
    stored: bytes | None = field(default=None, compare=False)
    shown: bytes = field(default=b"", compare=False)
    unwritten: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    _pages_read: dict[str, Page] = field(default_factory=dict, compare=False)
    _known_groups: KnownGroups = field(default_factory=KnownGroups, compare=False)

    @classmethod
    def read(cls, store: Store) -> Checkpoint:
        """The newest checkpoint of a log; the one before all records where there is none, or one of another log.

        Raises:
            CorruptIndexError: a newer version of rli wrote it.
        """
        content = store.read_control(CHECKPOINT)
        if content is None:
            return cls(store)
        # A checkpoint may survive the records it stands for, on a server that went back. Its anchor, one of those
        # records, tells.
        found = cls._parsed(store, content)
        return found if found._is_of_this_log() else cls(store, stored=content)  # noqa: SLF001  (its own kind)

    def with_records(self, records: Sequence[tuple[LogRecord, bytes]], head: int, group_count: int) -> Checkpoint:
        """A checkpoint of further records, with a page more; neither is in the store yet."""
        entry, page = page_of([record for record, _ in records])
        last = {action: (action, sequence, instant) for action, sequence, instant in self.last_of}
        last |= {r.action: (r.action, r.first_sequence, r.instant) for r, _ in records if r.instant is not None}
        small = [(r.first_sequence, digest(content)) for r, content in records if len(content) <= _LARGEST_ANCHOR]
        anchor = small[-1] if small else self.anchor
        last_of, pages = tuple(sorted(last.values())), (*self.pages, entry)
        return replace(
            self,
            content=listing_json(head, group_count, last_of, anchor, pages),
            head=head,
            group_count=group_count,
            last_of=last_of,
            anchor=anchor,
            pages=pages,
            unwritten={**self.unwritten, entry.name: page},
        )

    def publish(self) -> Checkpoint | None:
        """Make this the newest checkpoint; None if another process changed that since it was read.

        Its intent comes first. If the store goes back to a state before the records of this checkpoint, it loses the
        intent too, and the checkpoint is not published over that of another log.
        """
        # The intent keeps the content that readers see, so nobody loses the present checkpoint while the pages are
        # written.
        intent = intent_json(self.shown)
        if not self.store.compare_and_set(CHECKPOINT, self.stored, intent):
            return None
        for name, page in self.unwritten.items():
            # A page of this name is this page: another process, or one that died, has written the same records.
            self.store.compare_and_set(name, None, page)
        # The unique token makes this fail for a process that was paused: another announcement has replaced the intent,
        # or the server has lost the intent together with records of this checkpoint.
        if not self.store.compare_and_set(CHECKPOINT, intent, self.content):
            return None
        return replace(self, stored=self.content, shown=self.content, unwritten={})

    def replacing(self, other: Checkpoint) -> Checkpoint:
        """The same checkpoint, to be published in place of another one of the same log, which was read just now."""
        return replace(self, stored=other.stored, shown=other.shown)

    def sharing(self, other: Checkpoint) -> Checkpoint:
        """The same checkpoint, with all that another one of the same log has read of their pages."""
        return replace(self, _pages_read=other._pages_read, _known_groups=other._known_groups)

    def sequence_of(self, instant: str) -> int | None:
        """The first sequence of the record that brings an instant; None if the checkpoint does not know it."""
        for position in reversed(range(len(self.pages))):
            entry = self.pages[position]
            if entry.least and entry.least <= instant <= entry.greatest:
                found = self.page(position).sequences.get(instant)
                if found is not None:
                    return found
        return None

    def undone_after(self, sequence: int) -> frozenset[str]:
        """The instants that records from a sequence on take back."""
        firsts = [entry.first_sequence for entry in self.pages[1:]]
        start = int(np.searchsorted(firsts, sequence, side="right"))
        return frozenset[str]().union(
            *(self.page(position).undone.to_pylist() for position in range(start, len(self.pages)))
        )

    def numbers_of(self, groups: Iterable[FileGroupId]) -> dict[FileGroupId, int]:
        """The numbers of those of some file groups that have one."""
        wanted = set(groups)
        if not wanted or not self.pages:
            return {}
        self._learn_groups()
        found: dict[FileGroupId, int] = {}
        for name, positions in self._known_groups.find({group.file_id for group in wanted}, self._names_of_pages):
            page = self._entry_of(name)
            names = self._read_page(name, self._content_of(name)).names
            for position in positions:
                group = FileGroupId(names.partition_paths[position].as_py(), names.file_ids[position].as_py())
                if group in wanted:
                    found[group] = page.first_group + position
        return found

    def partition_paths(self) -> set[str]:
        """The partitions of all file groups that have a number."""
        self._learn_groups()
        return self._known_groups.partition_paths(self._names_of_pages)

    def records_after(self, sequence: int) -> list[LogRecord]:
        """Those of its records whose sequences are greater, in order; they are read from the log."""
        return records_between(self.store, sequence + 1, self.head + 1)

    def newest_first(self) -> Iterator[LogRecord]:
        """Its records, the newest first; they are read from the log, as far as they are asked for."""
        last = self.head
        while last > 0:
            first = max(1, bounds_of_block(last)[0])
            yield from reversed(records_between(self.store, first, last + 1))
            last = first - 1

    def record_at(self, sequence: int) -> LogRecord | None:
        """The record that begins with a sequence, read from the log; None if no record does."""
        content = self.store.read_control(record_name(sequence)) if sequence > 0 else None
        return None if content is None else LogRecord.from_json(sequence, content)

    def page(self, position: int) -> Page:
        """A page by its position in the list."""
        name = self.pages[position].name
        found = self._pages_read.get(name)
        if found is None:
            found = self._pages_read[name] = self._read_page(name, self._content_of(name))
        return found

    def load(self, positions: Sequence[int]) -> None:
        """Read several pages at once."""
        missing = [
            name for name in (self.pages[position].name for position in positions) if name not in self._pages_read
        ]
        if len(missing) > _MOST_READ_ALONE:
            for name, page in self._read_many(missing):
                self._pages_read[name] = page

    def _learn_groups(self) -> None:
        """Read the pages whose file groups are not known yet; their names are not kept, only hashes of them."""
        missing = [name for name in self._names_of_pages if name not in self._known_groups]
        for name, page in self._read_many(missing):
            self._known_groups.add(name, page.names.partition_paths, page.names.file_ids)

    def _read_many(self, names: Sequence[str]) -> Iterator[tuple[str, Page]]:
        """Pages by their names, which ascend; no more than a few dozen are in memory at once."""
        for block, some in groupby(names, lambda name: name[: len(PAGES) + _BLOCK_DIGITS]):
            stored = dict(self.store.scan_control(block))
            for name in some:
                yield name, self._read_page(name, self.unwritten.get(name) or stored.get(name))

    def _content_of(self, name: str) -> bytes | None:
        return self.unwritten.get(name) or self.store.read_control(name)

    def _read_page(self, name: str, content: bytes | None) -> Page:
        """A page, given what is stored of it; where that is not a page, it is made of its records."""
        page = None if content is None or digest(content) != name.rpartition("-")[2] else parse_page(content)
        # Pages save reading, nothing else. A missing or damaged page is made again from the records, and no error
        # reaches a reader.
        if page is None:
            page = parse_page(page_bytes(self._records_of(self._names_of_pages.index(name))))
        if page is None:
            raise CorruptIndexError(
                f"records of the index's commit log are damaged: page={name}", remedy="bootstrap the index again"
            )
        return page

    def _records_of(self, position: int) -> list[LogRecord]:
        first = self.pages[position].first_sequence
        after = self.pages[position + 1].first_sequence if position + 1 < len(self.pages) else self.head + 1
        return records_between(self.store, first, after)

    @cached_property
    def _names_of_pages(self) -> list[str]:
        return [entry.name for entry in self.pages]

    def _entry_of(self, name: str) -> PageEntry:
        return self.pages[self._names_of_pages.index(name)]

    def _is_of_this_log(self) -> bool:
        if self.anchor is None:
            return True
        sequence, expected = self.anchor
        record = self.store.read_control(record_name(sequence))
        return record is not None and digest(record) == expected

    @classmethod
    def _parsed(cls, store: Store, content: bytes) -> Checkpoint:
        found = parse_listing(content)
        if found is None:
            # The records say the same.
            return cls(store, stored=content)
        pages = tuple(PageEntry(*entry) for entry in found.pages)
        counts = found.head, found.groups
        return cls(store, content, *counts, found.lastOf, found.anchor, pages, stored=content, shown=content)
