"""Which files and row groups of a scan are read: all but those that are proven to hold no record of the filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rli.filters.filter import Filter
from rli.filters.predicates import Predicate, columns_of, has_unknown
from rli.filters.pruning import may_match
from rli.hudi.footer_bounds import FooterBounds
from rli.hudi.partition_values import PartitionBounds, partition_values, values_left_out
from rli.locations import KeysByGroup
from rli.tasks import InThreads
from rli.view.definition import TableDefinition
from rli.view.explanation import Narrowed, PruningStep
from rli.view.file_slice_reader import fragment_of
from rli.view.file_slices import FileSlice
from rli.view.skipping import Skipping

FILES_AT_A_TIME: Final = 64
"""Whose footers are in memory."""


ByValues: TypeAlias = Callable[[Predicate, pa.Schema, Sequence[FileSlice]], KeysByGroup | None]
"""The keys of all records of a filter in some slices, by the values that it names, and perhaps of others; None: it does not know."""


class Selected(NamedTuple):
    """A slice to read.

    Attributes:
        file_slice: the slice.
        fragment: its records, without row groups that hold none of the filter's; None if the slice has log files, because
            the footer of the base file does not describe their records, or if the record keys are known.
        record_keys: of all records that pass the filter, and perhaps of others; None if they are not known.
    """

    file_slice: FileSlice
    fragment: Any | None
    record_keys: pa.Array | None = None


@dataclass(frozen=True)
class Selection:
    """The slices and row groups that may hold records for which a predicate is true.

    Attributes:
        table: the definition of the table.
        schema: of its records, with meta columns.
        passes: the filter.
        skipping: asks the metadata table; None where there is none, or where slices were chosen before.
        by_values: asks indexes of columns in key-value stores; None where nobody opened them, or where slices were chosen before.
    """

    table: TableDefinition
    schema: pa.Schema
    passes: Filter
    skipping: Skipping | None = None
    by_values: ByValues | None = None
    _values: dict[str, dict[str, pa.Scalar]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Partition path → what it says."""

    @property
    def predicate(self) -> Predicate:
        """What is known of the filter."""
        return self.passes.predicate

    def among(self, live: Sequence[FileSlice]) -> Iterator[list[Selected]]:
        """The selected ones of some slices, in order, as many at a time as footers are held.

        Raises:
            OSError: a file is missing; also pyarrow.ArrowException for a damaged one.
        """
        yield from self._read(self._steps_without_footers(live)[-1], asks_footers=self._asks_files(live))

    def _read(self, narrowed: Narrowed, *, asks_footers: bool) -> Iterator[list[Selected]]:
        known, left = list[Selected](), narrowed.kept
        if narrowed.record_keys is not None:
            keys = narrowed.record_keys
            known = [Selected(one, None, keys[one.group]) for one in left if one.group in keys]
            left = [one for one in left if one.group not in keys]
        if known:
            yield known
        for start in range(0, len(left), FILES_AT_A_TIME):
            some = left[start : start + FILES_AT_A_TIME]
            selected = self._by_footers(some) if asks_footers else self._whole(some)
            if selected:
                yield selected

    def row_groups(self, footer: pq.FileMetaData) -> NDArray[np.bool_]:
        """Which row groups of a base file may hold records for which the predicate is true, as far as the footer tells."""
        return may_match(self.predicate, self._bounds([footer]))

    def _bounds(self, footers: Sequence[pq.FileMetaData]) -> FooterBounds:
        return FooterBounds(footers, self.schema, frozenset(self.table.properties.partition_fields))

    def steps(self, live: Sequence[FileSlice]) -> list[Narrowed]:
        """What each step of ``among`` leaves of some slices, in order; raises as ``among``."""
        steps = self._steps_without_footers(live)
        if self._asks_files(live):
            selected = [one.file_slice for some in self._read(steps[-1], asks_footers=True) for one in some]
            steps.append(Narrowed(PruningStep.FOOTERS, selected))
        return steps

    def _steps_without_footers(self, live: Sequence[FileSlice]) -> list[Narrowed]:
        """What paths, indexes and the metadata table leave; no data file is opened."""
        in_partitions = Narrowed(PruningStep.PARTITION_PATH, self.in_partitions(live))
        asks_files = self._asks_files(live)
        if asks_files and self.by_values is not None:
            keys = self.by_values(self.predicate, self.schema, in_partitions.kept)
            if keys is not None:
                kept = [one for one in in_partitions.kept if one.group in keys]
                return [in_partitions, Narrowed(PruningStep.SECONDARY_INDEX, kept, keys)]
        # Of an expression whose meaning is not known, an index may still know the values.
        if self.skipping is None or not (has_unknown(self.predicate) or asks_files):
            return [in_partitions]
        return [in_partitions, *self.skipping.steps(self.passes, self.schema, in_partitions.kept, live)]

    def in_partitions(self, live: Sequence[FileSlice]) -> list[FileSlice]:
        """Those of some slices that are left by their partition paths alone, in order; no file is read."""
        known = [self._known(file_slice) for file_slice in live] if self._asks_paths else [{}] * len(live)
        keep = may_match(self.predicate, PartitionBounds(self.schema, known))
        return [file_slice for file_slice, is_kept in zip(live, keep, strict=True) if is_kept]

    def _asks_files(self, live: Sequence[FileSlice]) -> bool:
        """Whether statistics of files may say more: what a path says of all its columns, they do not say better."""
        known = [self._known(file_slice) for file_slice in live] if self._asks_paths else []
        told_by_paths = frozenset(known[0]).intersection(*known) if known else frozenset[str]()
        return any(column[0] not in told_by_paths for column in columns_of(self.predicate))

    @cached_property
    def _asks_paths(self) -> bool:
        return any(column[0] in self.table.properties.partition_fields for column in columns_of(self.predicate))

    def _known(self, file_slice: FileSlice) -> dict[str, pa.Scalar]:
        path = file_slice.group.partition_path
        if path not in self._values:
            self._values[path] = partition_values(self.table.properties, self.schema, path)
        return self._values[path]

    def _whole(self, slices: Sequence[FileSlice]) -> list[Selected]:
        return [Selected(one, None if one.logs else whole_fragment(self.table, self.schema, one)) for one in slices]

    def _by_footers(self, slices: Sequence[FileSlice]) -> list[Selected]:
        merged = [Selected(one, None) for one in slices if one.logs]
        whole = self._whole([one for one in slices if not one.logs])
        fragments: list[Any] = [one.fragment for one in whole]
        footers = list(InThreads().run(_footer, fragments))
        keep = may_match(self.predicate, self._bounds(footers))
        ends = np.cumsum([0, *(footer.num_row_groups for footer in footers)]).tolist()
        groups = [np.flatnonzero(keep[start:end]).tolist() for start, end in pairwise(ends)]
        read = [
            Selected(one.file_slice, fragment.subset(row_group_ids=some))
            for one, fragment, some in zip(whole, fragments, groups, strict=True)
            if some
        ]
        return [*read, *merged]


def whole_fragment(table: TableDefinition, schema: pa.Schema, file_slice: FileSlice) -> Any:
    """All records of a slice as a ``pyarrow.dataset.Fragment``; ``schema`` is that of the table's records."""
    guarantee = values_left_out(table.properties, schema, file_slice.group.partition_path)
    return fragment_of(table.storage, file_slice, guarantee)


def _footer(fragment: Any) -> Any:
    """Read once: the fragment keeps it."""
    fragment.ensure_complete_metadata()
    return fragment.metadata
