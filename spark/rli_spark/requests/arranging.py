"""How the rows of a request are arranged in its files: by the hash of their key, those of a load by their partition first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.fingerprints import mixed
from rli.codec.key_codec import key_hashes
from rli.file_group import work_rows
from rli.model import Scope
from rli.write.rows.tally import Tally

HASH: Final = "_rli_hash"
"""Column of arranged rows: the routing hash of their key."""

FINGERPRINT: Final = "fingerprint"
"""Column: the fingerprint of a record's key, with partition scope mixed with its partition's: records that share a key in
their scope share it."""

_MOST_PARTITIONS: Final = 1024
"""Of the rows of a table, up to which they are arranged by partition: a small batch costs as much as hundreds of rows."""

_HASH_BITS: Final = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Load:
    """Says that the table held no records, so that those of a request are likely to be inserted all. Picklable.

    Attributes:
        scope: where a key is unique.
        distinct: of keyed rows, one for each key; see ``Keying.distinct``.
    """

    scope: Scope
    distinct: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Run:
    """Arranged rows that follow each other, with rising hashes.

    Attributes:
        partition_path: where all of them belong; None where nobody knows.
        rows: with ``HASH``.
    """

    partition_path: str | None
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Arranged:
    """Keyed rows in the order in which a file has them.

    Attributes:
        runs: the rows.
        tally: of their keys.
        fingerprints: of a load: ``FINGERPRINT`` of each row, rising, and its first half as ``HASH``: equal ones meet.
    """

    runs: tuple[Run, ...]
    tally: Tally
    fingerprints: pa.Table | None = None


def arranged_by_hash(keyed: pa.Table) -> Arranged:
    """Keyed rows, by the hash of their key."""
    hashes, fingerprints = _hashes_of(keyed)
    order = np.argsort(hashes, kind="stable")
    return Arranged((Run(None, _ordered(keyed, order, hashes)),), Tally.of_hashes(fingerprints))


def arranged_for_load(keyed: pa.Table, load: Load) -> Arranged:
    """Keyed rows by their partition, then by the hash of their key; of those with one key in a partition, one."""
    paths = pc.dictionary_encode(keyed.column(work_rows.WANTED_PARTITION_PATH).combine_chunks())
    hashes, fingerprints = _hashes_of(keyed)
    partitions = paths.dictionary.to_pylist()
    codes = paths.indices.to_numpy()
    if len(partitions) > _MOST_PARTITIONS:
        partitions, codes = [None], np.zeros_like(codes)
    places = (codes.astype(np.uint64) << _HASH_BITS) | hashes
    order = np.argsort(places)
    if _repeat(places[order], fingerprints, order):
        distinct = load.distinct(keyed)
        if distinct.num_rows < keyed.num_rows:
            return arranged_for_load(distinct, load)
    scoped = fingerprints
    if load.scope is Scope.PARTITION:
        scoped = mixed(fingerprints, key_hashes(paths.dictionary)[1][paths.indices.to_numpy()])
    rows = _ordered(keyed, order, hashes)
    counts = np.bincount(codes, minlength=len(partitions))
    starts = np.cumsum(counts) - counts
    runs = (
        Run(path, rows.slice(start, count))
        for path, start, count in zip(partitions, starts.tolist(), counts.tolist(), strict=True)
    )
    return Arranged(tuple(runs), Tally.of_hashes(fingerprints), _as_rows(np.sort(scoped)))


def _hashes_of(keyed: pa.Table) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    return key_hashes(keyed.column(work_rows.RECORD_KEY).combine_chunks())


def _ordered(keyed: pa.Table, order: NDArray[np.intp], hashes: NDArray[np.uint32]) -> pa.Table:
    return keyed.take(pa.array(order)).append_column(HASH, pa.array(hashes[order]))


def _as_rows(fingerprints: NDArray[np.uint64]) -> pa.Table:
    return pa.table(
        {HASH: pa.array((fingerprints >> _HASH_BITS).astype(np.uint32)), FINGERPRINT: pa.array(fingerprints)}
    )


def _repeat(places: NDArray[np.uint64], fingerprints: NDArray[np.uint64], order: NDArray[np.intp]) -> bool:
    """Whether rows of one place (rising, shape (n,)) may have one key."""
    equal = places[1:] == places[:-1]
    tied = order[np.concatenate([equal, [False]]) | np.concatenate([[False], equal])]
    return len(np.unique(fingerprints[tied])) < len(tied)
