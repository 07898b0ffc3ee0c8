"""What decides about a kind of index: the keys of a table, its files, its last commits, and a batch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.advice.sources import KEY, KEYED_SCHEMA, PARTITION, KeySource, StoredFile, evenly, within_rows
from rli.codec.record_keys import encode
from rli.model import TableType
from rli.view.history import history
from rli.view.snapshot import Snapshot

_COMMITS: Final = 20
"""The last ones, which stand for the next."""

_COUNTED: Final = ("inserted", "updated", "moved", "deleted", "unchanged")

_ROWS_READ: Final = 2_000_000
"""Of whose keys a table is read at most."""

_SAMPLED_UNITS: Final = 32
_SAMPLED_KEYS: Final = 20_000
_SAMPLED_BATCH: Final = 500_000

_ASSUMED_SHARE, _ASSUMED_KNOWN, _LEAST_ASSUMED = 0.01, 0.5, 1_000
"""A batch where nothing tells: a hundredth of the table, half of it known."""


@dataclass(frozen=True, slots=True)
class CommitStatistics:
    """The last writes of a table, as its commit metadata tells of them.

    Attributes:
        commits: how many were looked at.
        rows: records that a commit brought, on average.
        inserted, updated, moved, deleted, unchanged: their shares; they add up to 1.
        files: base files that a commit rewrote, on average.
        partitions: partitions that a commit wrote to, on average.
        writers: users and machines that wrote, in order.
    """

    commits: int
    rows: float
    inserted: float
    updated: float
    moved: float
    deleted: float
    unchanged: float
    files: float
    partitions: float
    writers: tuple[str, ...]

    @property
    def machines(self) -> int:
        """How many machines wrote."""
        return len({writer.rpartition("@")[2] for writer in self.writers})


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """A table, or Parquet files that are to become one.

    Attributes:
        location: of the table; names the files.
        is_table: whether it is a table.
        partition_by: partition columns.
        index: URL of its index, without a password; None if it has none.
        keys: records.
        key_bytes: length of a record key as text, on average.
        encoded_key_bytes: the same, as a record index encodes it.
        partitions, files, bytes: of the table; of Parquet files, those of the table they would become.
        files_per_key: how many files have a key range that holds a stored key, on average.
        files_per_key_in_partition: the same, of the files of the key's partition.
        repeated: the share of keys that several partitions hold.
        open_seconds: to open a file and read its footer.
        is_local: whether the files are on this machine.
        commits: None where there are none.
        version: of the table; of Parquet files, that of a new table.
        metadata_partitions: that its metadata table lists.
        table_type: None for Parquet files outside a table.
    """

    location: str
    is_table: bool
    partition_by: tuple[str, ...]
    index: str | None
    keys: int
    key_bytes: float
    encoded_key_bytes: float
    partitions: int
    files: int
    bytes: int
    files_per_key: float
    files_per_key_in_partition: float
    repeated: float
    open_seconds: float
    is_local: bool
    commits: CommitStatistics | None
    version: int
    metadata_partitions: tuple[str, ...] = ()
    table_type: TableType | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """Which stored files concern a batch.

    Attributes:
        files, rows, bytes: how many, their records and their size.
    """

    files: float
    rows: float
    bytes: float

    def times(self, factor: float) -> Reach:
        return Reach(self.files * factor, self.rows * factor, self.bytes * factor)

    def __add__(self, other: Reach) -> Reach:
        return Reach(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """A batch of records that is upserted.

    Attributes:
        origin: "records" that were given, the last "commits" of the table, or "assumed".
        keys: distinct record keys.
        known: the share of them that the table holds.
        moved: the share that the table holds in another partition.
        partitions: how many the batch belongs to.
        hit: files that hold a known key.
        near: files of the partitions of the batch.
        tested: files whose key range holds a key of the batch.
        tested_near: the same, of the files near.
        tests, tests_near: pairs of a key and such a file.
    """

    origin: str
    keys: float
    known: float
    moved: float
    partitions: float
    hit: Reach
    near: Reach
    tested: Reach
    tested_near: Reach
    tests: float
    tests_near: float


def commit_statistics(snapshot: Snapshot) -> CommitStatistics | None:
    """The last commits of a table that changed records; None if there are none.

    The commit that loaded the table is left out where others followed it: the next commits will not be like it.
    """
    told = {entry.time: entry for entry in history(snapshot, limit=4 * _COMMITS)}
    writes = [instant for instant in reversed(snapshot.timeline.completed_writes) if instant.time in told]
    commits = [(told[instant.time], snapshot.change(instant)) for instant in writes[: _COMMITS + 1]]
    commits = [(entry, commit) for entry, commit in commits if not commit.keeps_records]
    if len(commits) > 1 and all(stat.previous_instant is None for stat in commits[-1][1].written):
        commits.pop()
    commits = commits[:_COMMITS]
    counts = {name: sum(getattr(entry, name) or 0 for entry, _ in commits) for name in _COUNTED}
    total = sum(counts.values())
    if not total:
        return None
    return CommitStatistics(
        commits=len(commits),
        rows=total / len(commits),
        **{name: count / total for name, count in counts.items()},
        files=fmean(sum(stat.previous_instant is not None for stat in commit.written) for _, commit in commits),
        partitions=fmean(len({stat.partition_path for stat in commit.written}) for _, commit in commits),
        writers=tuple(sorted({entry.writer for entry, _ in commits if entry.writer is not None})),
    )


@dataclass(frozen=True, slots=True)
class Survey:
    """A table and a batch, read once.

    Attributes:
        table, batch: what was found.
    """

    table: TableStatistics
    batch: BatchStatistics


def survey(
    source: KeySource,
    batch: pa.Table | None,
    commits: CommitStatistics | None,
    *,
    table_type: TableType | None,
    index: str | None,
) -> Survey:
    """Read what decides about the kind of index.

    Args:
        source: the table or the files.
        batch: records; None where the last commits stand for it.
        commits: of the table.
        table_type: None for Parquet files outside a table.
        index: URL of its index.
    """
    files = source.stored_files
    sample = _sampled_keys(source)
    keyed = KEYED_SCHEMA.empty_table() if batch is None else _distinct(source.keyed(batch))
    stored = sample.group_by(KEY, use_threads=False).aggregate([(PARTITION, "min")]).rename_columns([KEY, PARTITION])
    probed = _probe(source, pa.concat_tables([_sampled(keyed, _SAMPLED_BATCH), stored]))
    in_batch = min(keyed.num_rows, _SAMPLED_BATCH)
    keys = sample.column(KEY).combine_chunks()
    count = max(1, len(keys))
    table = TableStatistics(
        location=source.location,
        is_table=table_type is not None,
        partition_by=source.partition_by,
        index=index,
        keys=source.rows,
        key_bytes=(pc.sum(pc.binary_length(keys)).as_py() or 0) / count,
        encoded_key_bytes=sum(found.nbytes for _, found in encode(keys)) / count,
        partitions=len({file.partition_path for file in files}),
        files=len(files),
        bytes=sum(file.size for file in files),
        files_per_key=sum(_tests(files, keys)) / count,
        files_per_key_in_partition=sum(_tests_near(files, sample)) / count,
        repeated=probed.repeated(in_batch),
        open_seconds=source.open_seconds,
        is_local=source.is_local,
        commits=commits,
        version=source.version,
        metadata_partitions=source.metadata_partitions,
        table_type=table_type,
    )
    if batch is not None:
        return Survey(table, _given(source, keyed, probed))
    return Survey(table, _expected(table, files, sample))


# A batch that is given ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Probed:
    """Where sought keys are: positions in the order of the sought keys.

    Attributes:
        wanted: partition path of each sought key.
        share: of the records that were read.
        places: position → partition paths where the key is.
        units: unit of the source → which sought keys it holds.
    """

    wanted: Sequence[str]
    share: float
    places: Mapping[int, set[str]]
    units: Mapping[int, set[int]]

    def repeated(self, start: int) -> float:
        """The share of the sought keys from a position on that several partitions hold."""
        held = [paths for position, paths in self.places.items() if position >= start]
        return sum(len(paths) > 1 for paths in held) / max(1, len(held))


def _probe(source: KeySource, sought: pa.Table) -> _Probed:
    """Look for keys in the files of a source, or in some of them if they are large."""
    keys = sought.column(KEY).combine_chunks()
    units = within_rows(source, _ROWS_READ)
    places, hits = defaultdict[int, set[str]](set), defaultdict[int, set[int]](set)
    read = 0
    # Of keys that are sought twice, the first position stands for all.
    wanted = keys.unique() if len(keys) else keys
    first = pc.index_in(wanted, value_set=keys).to_pylist()
    later = defaultdict[int, list[int]](list)
    for position, number in enumerate(pc.index_in(keys, value_set=wanted).to_pylist()):
        if position != first[number]:
            later[first[number]].append(position)
    for unit in units if len(keys) else ():
        for stored in source.read(unit):
            read += stored.num_rows
            numbers = pc.index_in(stored.column(KEY), value_set=wanted).combine_chunks()
            found = stored.column(PARTITION).filter(pc.is_valid(numbers))
            for number, path in zip(numbers.drop_null().to_pylist(), found.to_pylist(), strict=True):
                for position in (first[number], *later[first[number]]):
                    places[position].add(path)
                    hits[unit].add(position)
    share = read / max(1, source.rows)
    return _Probed(sought.column(PARTITION).to_pylist(), min(1.0, share) or 1.0, places, hits)


def _given(source: KeySource, keyed: pa.Table, probed: _Probed) -> BatchStatistics:
    files = source.stored_files
    sampled = min(keyed.num_rows, _SAMPLED_BATCH)
    factor = keyed.num_rows / max(1, sampled)
    found = {position: paths for position, paths in probed.places.items() if position < sampled}
    moved = sum(probed.wanted[position] not in paths for position, paths in found.items())
    partitions = set(pc.unique(keyed.column(PARTITION)).to_pylist())
    near = [file for file in files if file.partition_path in partitions]
    tests, tests_near = _tests(files, keyed.column(KEY)), _tests_near(files, keyed)
    return BatchStatistics(
        origin="records",
        keys=keyed.num_rows,
        known=min(1.0, len(found) / max(1, sampled) / probed.share),
        moved=min(1.0, moved / max(1, sampled) / probed.share),
        partitions=len(partitions),
        hit=_hit(source, probed, sampled, factor),
        near=_reach(near),
        tested=_reach(file for file, count in zip(files, tests, strict=True) if count),
        tested_near=_reach(file for file, count in zip(files, tests_near, strict=True) if count),
        tests=sum(tests),
        tests_near=sum(tests_near),
    )


def _hit(source: KeySource, probed: _Probed, sampled: int, factor: float) -> Reach:
    """The files that hold keys of a batch."""
    if source.units_are_files:
        hit = (unit for unit, positions in probed.units.items() if any(position < sampled for position in positions))
        return _reach(source.stored_files[unit] for unit in hit).times(1 / probed.share)
    by_partition = Counter(path for position, paths in probed.places.items() if position < sampled for path in paths)
    files_of = defaultdict[str, list[StoredFile]](list)
    for file in source.stored_files:
        files_of[file.partition_path].append(file)
    total = Reach(0, 0, 0)
    for path, count in by_partition.items():
        share = share_hit(count * factor / probed.share, len(files_of[path]))
        total += _reach(files_of[path]).times(share)
    return total


def share_hit(keys: float, files: float) -> float:
    """The share of some files that hold one of some keys, which are spread evenly."""
    return 1.0 - (1.0 - 1.0 / files) ** keys if files > 1 else float(keys > 0)


# A batch that is expected -------------------------------------------------------------------------------------------


def _expected(table: TableStatistics, files: Sequence[StoredFile], sample: pa.Table) -> BatchStatistics:
    """The next batch as the last commits were, or as nothing tells otherwise."""
    whole, commits = _reach(files), table.commits
    if commits is not None:
        keys, known = commits.rows, 1.0 - commits.inserted
        moved, partitions = commits.moved, min(commits.partitions, table.partitions)
        hit = whole.times(min(1.0, commits.files / max(1, table.files)))
    else:
        keys, known = max(_LEAST_ASSUMED, table.keys * _ASSUMED_SHARE), _ASSUMED_KNOWN if table.keys else 0.0
        moved, partitions = 0.0, float(table.partitions)
        hit = whole.times(share_hit(keys * known, table.files))
    near = whole.times(min(1.0, partitions / max(1, table.partitions)))
    # Keys that are not known lie in the ranges as the known ones do.
    tests, tests_near = keys * table.files_per_key, keys * table.files_per_key_in_partition
    one = max(1, sample.num_rows)
    return BatchStatistics(
        origin="assumed" if commits is None else "commits",
        keys=keys,
        known=known,
        moved=moved,
        partitions=partitions,
        hit=hit,
        near=near,
        tested=whole.times(_share_tested(_tests(files, sample.column(KEY)), keys / one)),
        tested_near=near.times(_share_tested(_tests_near(files, sample), keys / one)),
        tests=tests,
        tests_near=tests_near,
    )


def _share_tested(counts: Sequence[int], factor: float) -> float:
    """The share of files that a key falls to, if a sample fell so and there are more or fewer keys."""
    return float(np.mean([min(1.0, count * factor) for count in counts])) if counts else 0.0


# Parts --------------------------------------------------------------------------------------------------------------


def _sampled_keys(source: KeySource) -> pa.Table:
    """Stored keys, from files that are far apart."""
    units = evenly(source.units, _SAMPLED_UNITS)
    each = -(-_SAMPLED_KEYS // max(1, len(units)))
    parts = [_sampled(first, each) for unit in units for first in islice(source.read(unit), 1)]
    return pa.concat_tables([KEYED_SCHEMA.empty_table(), *parts])


def _sampled(keyed: pa.Table, most: int) -> pa.Table:
    return keyed if keyed.num_rows <= most else keyed.take(pa.array(evenly(keyed.num_rows, most)))


def _distinct(keyed: pa.Table) -> pa.Table:
    return keyed.group_by([KEY, PARTITION], use_threads=False).aggregate([])


def _reach(files: Iterable[StoredFile]) -> Reach:
    listed = list(files)
    return Reach(len(listed), sum(file.rows for file in listed), sum(file.size for file in listed))


def _tests(files: Sequence[StoredFile], keys: pa.Array) -> list[int]:
    """For each file, how many of some keys its range holds."""
    ordered = sorted(keys.to_pylist())
    return [_within(ordered, file) for file in files]


def _tests_near(files: Sequence[StoredFile], keyed: pa.Table) -> list[int]:
    """The same of the keys of the file's partition."""
    by_partition = defaultdict[str, list[str]](list)
    for key, path in zip(keyed.column(KEY).to_pylist(), keyed.column(PARTITION).to_pylist(), strict=True):
        by_partition[path].append(key)
    for keys in by_partition.values():
        keys.sort()
    return [_within(by_partition.get(file.partition_path, ()), file) for file in files]


def _within(ordered: Sequence[str], file: StoredFile) -> int:
    if file.least is None or file.greatest is None:
        return len(ordered)
    return bisect_right(ordered, file.greatest) - bisect_left(ordered, file.least)
