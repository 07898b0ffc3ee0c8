"""What an upsert costs with each kind of index: a model of the work that each kind does, at the rates of a machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from rli.advice.calibration import MEMORY, Calibration
from rli.advice.sources import TARGET_FILE_BYTES
from rli.advice.statistics import Reach, Survey, share_hit
from rli.errors import SettingsError
from rli.hudi.metadata.partitions import PartitionKind
from rli.index.bloom.table_index import BloomIndex
from rli.metadata_table.initial_records import groups_of_record_index
from rli.model import Scope
from rli.services.metadata_compaction import DELTACOMMITS_OF_COMPACTION
from rli.settings import MEBIBYTE
from rli.store.capacity import estimate_capacity

_KEYS_AT_ONCE: Final = 64 * MEBIBYTE
"""Bytes of stored keys that are compared with a batch at a time."""

_NUMBER_BYTES: Final = 8
_FILTER_BYTES: Final = 5.4
"""Of a bloom filter for each of its keys, at the rate at which base files have them."""

_FILES_OF_GROUP: Final = 6
"""Of a file group of the record index: its base file, and the log files of half of the commits between compactions."""

_CELL_BYTES: Final = 8
"""Of an entry in the metadata table, beside its key."""

_SMALL_FILE: Final = 100 * MEBIBYTE
_UNKNOWN_STORE: Final = "a store"


@dataclass(frozen=True, slots=True)
class KindEstimate:
    """What one kind of index would cost.

    Attributes:
        kind: its name; of a record index with that of its store.
        url: as ``index=`` takes it.
        scope: where a record key is unique.
        tag_seconds: of an upsert of the batch, to find its keys; None where the store was not measured.
        write_seconds: to write files; the same with most kinds.
        maintain_seconds: to bring the changes into the index.
        lookup_seconds: to look up one key, wherever it is.
        memory_bytes: of the writer, for keys.
        index_bytes: that the index keeps; None where its store does not tell.
        kept_in: where it keeps them.
        obstacles: why it cannot be chosen; empty if it can.
    """

    kind: str
    url: str
    scope: Scope
    tag_seconds: float | None
    write_seconds: float
    maintain_seconds: float | None
    lookup_seconds: float | None
    memory_bytes: int
    index_bytes: int | None
    kept_in: str
    obstacles: tuple[str, ...] = ()

    @property
    def upsert_seconds(self) -> float | None:
        """All of an upsert; None where the store was not measured."""
        if self.tag_seconds is None or self.maintain_seconds is None:
            return None
        return self.tag_seconds + self.write_seconds + self.maintain_seconds


@dataclass(frozen=True, slots=True)
class CostModel:
    """The costs of kinds for a table and a batch.

    Attributes:
        found: the table and the batch.
        rates: of the machine.
    """

    found: Survey
    rates: Calibration

    def record(self, name: str, url: str, scope: Scope) -> KindEstimate:
        """A record index in a store.

        Args:
            name: of the store's rates; where there are none, only sizes are estimated.
            url: of the index.
            scope: where a record key is unique.
        """
        batch, table, rates = self.found.batch, self.found.table, self.rates.stores.get(name)
        size, kept_in = self._entries(url)
        changed = batch.keys * (1 - batch.known + batch.moved)
        return KindEstimate(
            kind=f"record ({_store_name(url)})",
            url=url,
            scope=scope,
            tag_seconds=None if rates is None else rates.lookup + batch.keys * rates.lookup_key,
            write_seconds=self._writing(self._hit(scope)),
            maintain_seconds=None if rates is None else rates.commit + changed * rates.put_key,
            lookup_seconds=None if rates is None else rates.lookup + rates.lookup_key,
            memory_bytes=round(batch.keys * (table.encoded_key_bytes + _NUMBER_BYTES)),
            index_bytes=size,
            kept_in=kept_in,
        )

    def metadata_record(self, scope: Scope) -> KindEstimate:
        """The record index in the table's metadata table.

        A look-up opens the file groups that may hold its keys, with their log files, and reads the blocks of the keys. A commit
        writes a log file for each file group that it changes, and one in ten merges the log files into base files.
        """
        batch, table, rates = self.found.batch, self.found.table, self.rates
        groups, changed = groups_of_record_index(table.keys), batch.keys * (1 - batch.known + batch.moved)
        in_blocks = min(batch.keys * rates.hfile_block, table.keys * rates.hfile_cell)
        merging = table.keys * (rates.hfile_cell + rates.put_cell) / DELTACOMMITS_OF_COMPACTION
        return KindEstimate(
            kind="record (metadata table)",
            url="record-index:" if scope is Scope.GLOBAL else "record-index:?scope=partition",
            scope=scope,
            tag_seconds=min(groups, batch.keys) * _FILES_OF_GROUP * self._open + in_blocks,
            write_seconds=self._writing(self._hit(scope)),
            maintain_seconds=min(groups, changed) * self._open + changed * rates.put_cell + merging,
            lookup_seconds=_FILES_OF_GROUP * self._open + rates.hfile_block,
            memory_bytes=round(batch.keys * table.key_bytes),
            index_bytes=round(table.keys * (_CELL_BYTES + table.encoded_key_bytes)),
            kept_in="the metadata table",
        )

    def simple(self, scope: Scope) -> KindEstimate:
        """A join with the stored keys."""
        batch = self.found.batch
        read = batch.near if scope is Scope.PARTITION else self._whole
        return self._of_files(
            "simple",
            scope,
            self._scanning(read) + batch.keys * self.rates.join_key,
            self._scanning(self._whole),
            self._keys_at_once(read),
        )

    def bloom(self, scope: Scope) -> KindEstimate:
        """Key ranges and bloom filters, then the keys of the files that are left."""
        batch, table, rates = self.found.batch, self.found.table, self.rates
        near = scope is Scope.PARTITION
        ranged, tested = (batch.near, batch.tested_near) if near else (self._whole, batch.tested)
        tests, probed = batch.tests_near if near else batch.tests, self._hit(scope)
        tagging = (
            self._opening(ranged.files)
            + tested.rows * rates.filter_row
            + batch.keys * rates.hash_key
            + tests * rates.test_key
            + self._scanning(probed)
            + batch.keys * rates.join_key
        )
        one = self._whole.times(1 / max(1.0, self._whole.files))
        looking = (
            self._opening(self._whole.files)
            + table.files_per_key * (one.rows * rates.filter_row + rates.test_key)
            + self._scanning(one)
        )
        filter_bytes = ranged.rows / max(1.0, ranged.files) * _FILTER_BYTES
        return self._of_files("bloom", scope, tagging, looking, self._keys_at_once(probed) + filter_bytes)

    def bucket(self, kind: str, today: str | None = None) -> KindEstimate:
        """The hash of a key names its file group; so new records go to all file groups of their partition.

        A bucket of a consistent bucket index is split when it has doubled, so each new record is written about once more.

        Args:
            kind: "bucket" or "consistent-bucket".
            today: URL of the table's index, if it is of this kind: its buckets are there.
        """
        batch, table, rates = self.found.batch, self.found.table, self.rates
        buckets = bucket_count(self.found) if today is None else math.ceil(table.files / max(1, table.partitions)) or 1
        share = share_hit(batch.keys / max(1.0, batch.partitions), buckets)
        rewritten = batch.near.times(share)
        one = self._whole.times(1 / max(1, table.partitions) / buckets)
        return KindEstimate(
            kind=kind,
            url=today or f"{kind}:?buckets={buckets}",
            scope=Scope.PARTITION,
            # The merge, which reads the file groups anyway, tells updates from inserts.
            tag_seconds=batch.keys * rates.hash_key,
            write_seconds=self._rewriting(rewritten) + self._inserting,
            maintain_seconds=self._inserting if kind == "consistent-bucket" else 0.0,
            lookup_seconds=table.partitions * self._scanning(one),
            memory_bytes=round(batch.keys * table.key_bytes),
            index_bytes=0,
            kept_in="nothing",
        )

    # Parts -----------------------------------------------------------------------------------------------------

    @property
    def _whole(self) -> Reach:
        table = self.found.table
        return Reach(table.files, table.keys, table.bytes)

    @property
    def _open(self) -> float:
        table, measured = self.found.table, self.rates.open_file
        return measured if table.is_local else max(measured, table.open_seconds)

    def _opening(self, files: float) -> float:
        """Reading the ranges and filters of some files: from footers, or from the metadata table if it has them."""
        told = {PartitionKind.COLUMN_STATS, PartitionKind.BLOOM_FILTERS} <= {*self.found.table.metadata_partitions}
        return (min(files, BloomIndex.fewest_asked) if told else files) * self._open

    def _scanning(self, reach: Reach) -> float:
        """Reading the keys of some files."""
        per_row = self.rates.key_row + self.found.table.key_bytes * self.rates.key_byte
        return reach.files * self._open + reach.rows * per_row

    def _keys_at_once(self, reach: Reach) -> float:
        return min(_KEYS_AT_ONCE, reach.rows * self.found.table.key_bytes)

    def _of_files(self, name: str, scope: Scope, tag: float, lookup: float, memory: float) -> KindEstimate:
        """A kind that keeps nothing and finds keys in the table's files."""
        kind = name if scope is Scope.PARTITION else f"global-{name}"
        batch = self.found.batch
        return KindEstimate(
            kind=kind,
            url=f"{kind}:",
            scope=scope,
            tag_seconds=tag,
            write_seconds=self._writing(self._hit(scope)),
            maintain_seconds=0.0,
            lookup_seconds=lookup,
            memory_bytes=round(memory + batch.keys * self.found.table.key_bytes),
            index_bytes=0,
            kept_in="nothing",
        )

    def _hit(self, scope: Scope) -> Reach:
        """The files that hold records of the batch: with partition scope, a record elsewhere is another one."""
        batch = self.found.batch
        if scope is Scope.GLOBAL or not batch.known:
            return batch.hit
        return batch.hit.times(max(0.0, 1 - batch.moved / batch.known))

    def _writing(self, hit: Reach) -> float:
        """Rewriting files that hold records of the batch, and small files that take new ones."""
        batch, table = self.found.batch, self.found.table
        new = batch.keys * (1 - batch.known)
        if not new or not batch.near.files or table.bytes / max(1, table.files) >= _SMALL_FILE:
            return self._rewriting(hit) + self._inserting
        missed = max(0.0, 1 - hit.files / max(1.0, batch.near.files))
        filled = batch.near.times(min(batch.partitions, batch.near.files) / batch.near.files * missed)
        return self._rewriting(hit + filled) + self._inserting

    @property
    def _inserting(self) -> float:
        batch, table = self.found.batch, self.found.table
        new = batch.keys * (1 - batch.known + batch.moved)
        width = table.bytes / max(1, table.keys)
        return self.rates.commit + new * (self.rates.write_row + width * self.rates.write_byte)

    def _rewriting(self, reach: Reach) -> float:
        rates = self.rates
        work = reach.files * rates.write_file + reach.rows * rates.write_row + reach.bytes * rates.write_byte
        return work / max(1.0, min(rates.cores, reach.files))

    def _entries(self, url: str) -> tuple[int | None, str]:
        """Bytes of a record index at a URL, and what they are bytes of."""
        table, store = self.found.table, _store_name(url)
        try:
            found = estimate_capacity(store, max(1, table.keys), max(1, math.ceil(table.encoded_key_bytes)))
        except SettingsError:
            return None, "memory" if store == MEMORY else _UNKNOWN_STORE
        return round(found.bytes_per_entry * table.keys), found.kept_in


def bucket_count(found: Survey) -> int:
    """How many buckets keep the files of a partition at about the size of a base file."""
    table = found.table
    return max(1, math.ceil(table.bytes / max(1, table.partitions) / TARGET_FILE_BYTES))


def grown(found: Survey, factor: int) -> Survey:
    """The same table with more keys and files, and the same batch."""
    table, batch = found.table, found.batch
    more = replace(
        table,
        keys=table.keys * factor,
        files=table.files * factor,
        bytes=table.bytes * factor,
        files_per_key=table.files_per_key if table.files_per_key <= _PRUNED else table.files_per_key * factor,
    )
    known = batch.keys * batch.known
    tests = factor if table.files_per_key > _PRUNED else 1
    return Survey(
        more,
        replace(
            batch,
            hit=batch.hit.times(max(1.0, min(factor, known / max(1.0, batch.hit.files)))),
            near=batch.near.times(factor),
            tested=batch.tested.times(factor),
            tested_near=batch.tested_near.times(factor),
            tests=batch.tests * tests,
            tests_near=batch.tests_near * tests,
        ),
    )


_PRUNED: Final = 1.5
"""Ranges that hold a key, of as many files at most, leave one file or two to test, however many there are."""


def _store_name(url: str) -> str:
    scheme = url.partition(":")[0].partition("+")[0]
    return {"rediss": "redis", "unix": "redis"}.get(scheme, scheme)
