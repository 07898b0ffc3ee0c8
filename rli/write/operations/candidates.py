"""The file slices that may hold records for which a condition is true: partition paths and the index tell."""

from __future__ import annotations

import pyarrow as pa

from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.filters.filter import Filter
from rli.filters.named_values import named_strings
from rli.filters.predicates import Predicate
from rli.hudi.meta_columns import with_meta_columns
from rli.index.locators import FileLocator, Locator, Unlocated
from rli.locations import named_groups
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.selection import Selection


def candidate_slices(write: WriteBasis, passes: Filter) -> list[FileSlice]:
    """The slices in which records are sought, in order; footers of files may leave out more of them.

    Raises:
        ConflictError: another writer has changed a record that the condition names since.
    """
    snapshot = write.snapshot
    schema = with_meta_columns(snapshot.schema or pa.schema([]))
    groups = _named_groups(write, passes.predicate)
    live = snapshot.slices.values() if groups is None else snapshot.slices.of_groups(groups).values()
    in_order = sorted(live, key=lambda file_slice: file_slice.group)
    return Selection(snapshot.table, schema, passes).in_partitions(in_order)


def locator_of_matches(write: WriteBasis) -> Locator:
    """Says since when the index has the records of the candidates where they are."""
    # An index of files says what the files say. Its own locator brings a list of all of them along.
    return Unlocated() if isinstance(write.locator, FileLocator) else write.locator


def _named_groups(write: WriteBasis, predicate: Predicate) -> set[FileGroupId] | None:
    """The file groups of the record keys that a condition names; None if it names none, or the index does not tell."""
    # An index of files would read them. Records of expired keys are shown by reads, and not known to an index.
    if write.expired_before is not None or isinstance(write.locator, FileLocator):
        return None
    keys = named_strings(predicate, write.snapshot.key_column_names)
    if keys is None:
        return None
    try:
        found = write.locator.locate_all(keys)
    except InvalidInputError:
        # An index of some partitions does not know all records of a key.
        return None
    columns = (found.column(name).combine_chunks() for name in ("partition_path", "file_id"))
    return {group for group in named_groups(*columns).groups if group is not None}
