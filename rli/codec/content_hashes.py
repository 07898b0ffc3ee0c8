"""Hashes of the content of rows: 64 bits of each, computed on whole columns.

They tell rows of equal content from others in any batch, in any order of rows and columns. A column that is null counts as
absent. They are kept with transactions of callers, so that equal rows must have the same hash in every later version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.fingerprints import mixed
from rli.codec.key_codec import key_hashes

Hashes = NDArray[np.uint64]

_SEED: Final = np.uint64(0x726F7773)
_NULL: Final = np.uint64(0x6E756C6C)
"""Stands for a null among the items of a list."""

_WIDTHS: Final = {32: pa.int32(), 64: pa.int64()}
"""By their bits: numbers that hold times."""


def content_hashes(rows: pa.Table) -> Hashes:
    """A hash of all values of each row (shape (n,)); no protection against chosen values."""
    columns = {name: column.combine_chunks() for name, column in zip(rows.column_names, rows.columns, strict=True)}
    return _finished(_summed(columns, rows.num_rows))


def _summed(columns: dict[str, pa.Array], count: int) -> Hashes:
    """The sum of what each named column adds to each row: in a sum, the order of columns makes no difference."""
    total = np.zeros(count, np.uint64)
    for name, values in columns.items():
        named = np.full(count, key_hashes(pa.array([name]))[1][0], np.uint64)
        total += np.where(_are_known(values), _finished(mixed(named, _words_of(values))), np.uint64(0))
    return total


def _finished(hashes: Hashes) -> Hashes:
    """Hashes whose sums tell which of them belong together: each bit depends on all bits."""
    return mixed(mixed(hashes, np.full(len(hashes), _SEED)), np.zeros(len(hashes), np.uint64))


def _are_known(values: pa.Array) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return known


def _words_of(values: pa.Array) -> Hashes:
    """A number for each value of a column, equal where the values are; any number where the value is null."""
    for matches, words in _WORDS:
        if matches(values.type):
            return words(values)
    return _of_strings(values.cast(pa.string()))


def _of_integers(values: pa.Array) -> Hashes:
    words: Hashes = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    return words


def _of_floats(values: pa.Array) -> Hashes:
    numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    # There are many bit patterns of NaN, and all of them mean the same.
    words: Hashes = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    return words


def _of_strings(values: pa.Array) -> Hashes:
    return key_hashes(pc.fill_null(values.cast(pa.string()), ""))[1]


def _of_bytes(values: pa.Array) -> Hashes:
    return _of_strings(values.cast(pa.binary()).view(pa.string()))


def _of_structs(values: pa.Array) -> Hashes:
    fields = {field.name: pc.struct_field(values, [number]) for number, field in enumerate(values.type)}
    return _finished(_summed(fields, len(values)))


def _of_lists(values: pa.Array) -> Hashes:
    lengths = _lengths(values)
    positions = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    items = values.flatten()
    words = np.where(_are_known(items), _finished(_words_of(items)), _NULL)
    return _summed_items(_finished(mixed(words, positions.astype(np.uint64))), lengths)


def _of_maps(values: pa.Array) -> Hashes:
    # The entries of a map have no order.
    entry = pa.struct([pa.field("key", values.type.key_type), pa.field("value", values.type.item_type)])
    entries = values.cast(pa.list_(entry))
    return _summed_items(_words_of(entries.flatten()), _lengths(entries))


def _lengths(values: pa.Array) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def _summed_items(hashes: Hashes, lengths: NDArray[np.int64]) -> Hashes:
    """A hash of each list, from the hashes of all items and the lengths of the lists."""
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes)])
    ends = np.cumsum(lengths)
    return _finished(mixed(sums[ends] - sums[ends - lengths], lengths.astype(np.uint64)))


def _of_times(values: pa.Array) -> Hashes:
    return _of_integers(values.view(_WIDTHS[values.type.bit_width]))


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


_WORDS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Hashes]], ...]] = (
    (pa.types.is_integer, _of_integers),
    (pa.types.is_floating, _of_floats),
    (_is_binary, _of_bytes),
    (pa.types.is_struct, _of_structs),
    (pa.types.is_map, _of_maps),
    (_is_list, _of_lists),
    (lambda kind: pa.types.is_temporal(kind) and kind.bit_width in _WIDTHS, _of_times),
)
