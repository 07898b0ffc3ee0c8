"""Finding record keys that stand in a table more than once, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.key_codec import hash_keys
from rli.model import Scope
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

KEYS_PER_PASS: Final = 8_000_000
"""Hashes of about so many keys are in memory at a time; a larger table is read in several passes."""

_SEEDS: Final = (0x73696D70, 0x6C650001)


@dataclass(frozen=True, slots=True)
class Repeats:
    """What one pass over the keys of a scope has found.

    Attributes:
        slices: the file slices of the scope: all of the table, or those of a partition.
        records: of these slices, in the first pass over them; 0 in the others.
        keys: string array of the keys that more than one record has, shape (n,).
        surplus: how many records have the key of another one, without one for each key.
    """

    slices: Sequence[FileSlice]
    records: int
    keys: pa.Array
    surplus: int


def find_repeats(snapshot: Snapshot, scope: Scope) -> Iterator[Repeats]:
    """Look for keys that more than one record of a scope has.

    Args:
        snapshot: the table, with a list of all its files.
        scope: where a key is unique.

    Raises:
        CorruptTableError: a base file is missing or damaged.
    """
    ordered = sorted(snapshot.slices.values(), key=lambda file_slice: (file_slice.group, file_slice.instant))
    parts = [ordered] if scope is Scope.GLOBAL else [list(part) for _, part in groupby(ordered, key=_partition_of)]
    for part in parts:
        count = sum(_rows_of(snapshot, file_slice) for file_slice in part)
        passes = -(-count // KEYS_PER_PASS)
        for number in range(passes):
            keys, surplus = _repeated(snapshot, part, passes, number)
            yield Repeats(part, count if number == 0 else 0, keys, surplus)


def _partition_of(file_slice: FileSlice) -> str:
    return file_slice.group.partition_path


def _rows_of(snapshot: Snapshot, file_slice: FileSlice) -> int:
    with snapshot.reader(file_slice) as reader:
        return reader.rows


def _repeated(snapshot: Snapshot, slices: Sequence[FileSlice], passes: int, number: int) -> tuple[pa.Array, int]:
    """Of the keys of one pass, those of several records, and how many records have the key of another one."""
    hashes = [found for _, found in _keys_of_pass(snapshot, slices, passes, number)]
    ordered = np.sort(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
    suspicious = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(suspicious):
        return pa.array([], pa.string()), 0
    # Two keys may have one hash: the keys themselves tell.
    suspects = (
        keys.filter(pa.array(np.isin(found, suspicious)))
        for keys, found in _keys_of_pass(snapshot, slices, passes, number)
    )
    return _of_several(suspects)


def _of_several(batches: Iterable[pa.Array]) -> tuple[pa.Array, int]:
    keys = pa.concat_arrays([pa.array([], pa.string()), *batches])
    counts = pc.value_counts(keys)
    several = counts.filter(pc.greater(counts.field("counts"), 1))
    surplus = (pc.sum(several.field("counts")).as_py() or 0) - len(several)
    return several.field("values"), surplus


def _keys_of_pass(
    snapshot: Snapshot, slices: Sequence[FileSlice], passes: int, number: int
) -> Iterator[tuple[pa.Array, NDArray[np.uint64]]]:
    """The keys that one pass looks at, in batches, and their hashes of 64 bits."""
    for file_slice in slices:
        for keys in snapshot.record_keys(file_slice):
            high, low = (hash_keys(keys, seed).astype(np.uint64) for seed in _SEEDS)
            found = (high << np.uint64(32)) | low
            if passes > 1:
                chosen = low % np.uint64(passes) == number
                keys, found = keys.filter(pa.array(chosen)), found[chosen]  # noqa: PLW2901
            yield keys, found
