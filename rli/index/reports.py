"""Facts about an index and its keys, as the contract of index kinds reports them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rli.model import KeyMode
from rli.model import Scope as Scope  # noqa: PLC0414  (as kinds name it)

_SAMPLE: Final = 10


@dataclass(frozen=True, slots=True)
class SomeKeys:
    """Record keys, of which only a few are named.

    Attributes:
        count: how many.
        sample: ten of them at most.
    """

    count: int
    sample: tuple[str, ...]

    @classmethod
    def of(cls, batches: Iterable[pa.Array]) -> SomeKeys:
        """All keys of some arrays, with their repetitions."""
        count, sample = 0, list[str]()
        for keys in batches:
            count += len(keys)
            sample += keys.slice(0, _SAMPLE - len(sample)).to_pylist()
        return cls(count, tuple(sample))


NO_KEYS: Final = SomeKeys(0, ())


def sum_of(parts: Iterable[SomeKeys]) -> SomeKeys:
    """All the keys together. A key that several parts name is named once, and counts once."""
    total = NO_KEYS
    for part in parts:
        sample = tuple(dict.fromkeys((*total.sample, *part.sample)))
        repeated = len(total.sample) + len(part.sample) - len(sample)
        total = SomeKeys(total.count + part.count - repeated, sample[:_SAMPLE])
    return total


@dataclass(frozen=True, slots=True)
class Unseen:
    """The instants in which a table and its index differ; false where there are none.

    Attributes:
        unapplied: completed ones, which a sync would bring into the index.
        withdrawn: those that the index has followed and that are pending again: they are being rolled back.
    """

    unapplied: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.lag > 0

    @property
    def lag(self) -> int:
        """How many instants the index has still to follow."""
        return len(self.unapplied) + len(self.withdrawn)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How index and table agree, as of one state of the table.

    Attributes:
        records: records in the table; where keys expire, those that have not.
        entries: keys with a location in the index; of a file index, the table's own records.
        missing: records whose key the index does not hold.
        misplaced: records whose key the index places elsewhere.
        dangling: keys of the index without a record in the table; where keys expire, of those that have not.
        sample: record keys that are wrong, a few of each kind.
        repeated: records with the key of another record: in the same base file, or, for a file index, in its scope.
        newer: records that were not compared, because writers have placed their keys since.
        damaged: for each damaged base file what is wrong with it; only a deep verification looks for it.
    """

    records: int
    entries: int
    missing: int
    misplaced: int
    dangling: int
    sample: tuple[str, ...]
    repeated: int = 0
    newer: int = 0
    damaged: tuple[str, ...] = ()

    @property
    def doubled(self) -> int:
        """Records beyond the first one of a key that lives in several files, as far as the counts tell.

        Of a file index, ``repeated`` says it. Beside writers at work, the counts do not tell.
        """
        # Each record that is not missing has an entry of its key, and each entry that does not dangle a record.
        return 0 if self.newer else max(0, self.records - self.missing - self.entries + self.dangling)

    @property
    def agrees(self) -> bool:
        """Whether index and table say the same, and no base file is damaged."""
        return not (self.missing or self.misplaced or self.dangling or self.repeated or self.damaged)


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Size and state of an index. Kinds that keep nothing of their own have None where they have no such thing.

    Attributes:
        entries: record keys with a location.
        tombstones: deleted record keys whose sequence is still kept.
        bytes: all that the index costs its store; None where the store cannot tell.
        bytes_per_entry: ``bytes`` over entries and tombstones; None where unknown or empty.
        shards: how many shards the key space is cut into.
        file_groups: file groups that the index knows.
        last_sequence: the last commit sequence given out.
        applied_sequence: the last one whose changes are all in the index; None before a bootstrap.
        last_instant: the greatest instant that the index knows.
        key_mode: how record keys are kept.
        url: where the index is.
        kind: of the index, such as "record" or "simple".
        scope: where a record key is unique.
        expired: of the entries, how many are of expired keys; None where keys do not expire.
    """

    entries: int
    tombstones: int
    bytes: int | None
    bytes_per_entry: float | None
    shards: int | None
    file_groups: int
    last_sequence: int | None
    applied_sequence: int | None
    last_instant: str | None
    key_mode: KeyMode | None
    url: str
    kind: str
    scope: Scope
    expired: int | None = None


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What an index tells of itself at once; None where it has no such thing, or would have to read all of itself.

    Attributes:
        entries, bytes, shards, key_mode: see ``IndexStats``.
        format_version: of its records.
    """

    entries: int | None = None
    bytes: int | None = None
    shards: int | None = None
    key_mode: str | None = None
    format_version: int | None = None
