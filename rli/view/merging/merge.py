"""A file slice with log files, merged by columns.

The changes of the log files are folded to one for each key. Then the base file is read once, without the records that a
change replaces or deletes. The records of winning changes come last. So memory holds the keys of the log files, and the
records of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.arrow_arrays import one_array
from rli.codec.sought_strings import SoughtStrings
from rli.hudi.log_file.base_rows import UNKNOWN
from rli.view.merging.latest_changes import ALWAYS, BASE_ROW, KEY, NO_RECORD, ORDERING, POSITION, LatestChanges
from rli.view.merging.log_records import LogRecords
from rli.view.merging.ordering import comparable, comparable_type, is_at_least, require_known


@dataclass
class Merge:
    """The merge of one slice, in this order: ``kept`` for all records of the base file, then ``added``.

    Attributes:
        latest: the last change of each key.
        is_ordered: whether ordering values count.
        has_repeats: whether the base file has more than one record of a key that log files change.
    """

    latest: pa.Table
    is_ordered: bool
    has_repeats: bool = field(default=False, init=False)
    _met: NDArray[np.bool_] = field(init=False)
    _lost: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self._met = np.zeros(self.latest.num_rows, np.bool_)
        self._lost = np.zeros(self.latest.num_rows, np.bool_)

    @classmethod
    def of(cls, logs: LogRecords, record_keys: pa.Array | None) -> Merge:
        """Read the changes of log files, of some keys, or of all."""
        latest = LatestChanges(pa.null() if logs.ordering is None else comparable_type(logs.ordering.type))
        for some in logs.changes():
            wanted = some if record_keys is None else some.filter(pc.is_in(some[KEY], value_set=record_keys))
            latest.add(wanted)
        return cls(latest.folded(), logs.ordering is not None)

    @cached_property
    def _sought(self) -> SoughtStrings:
        return SoughtStrings(one_array(self.latest[KEY]))

    @cached_property
    def is_placed(self) -> bool:
        """Whether the positions in the base file of all changed records are known."""
        return not (self.latest[BASE_ROW].to_numpy() == UNKNOWN).any()

    @cached_property
    def _base_rows(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The positions in the base file of the changed records, in rising order, and the change of each."""
        base_rows = self.latest[BASE_ROW].to_numpy()
        if (np.diff(base_rows) > 0).all():
            # As they are where they have served to fold the changes.
            return base_rows, np.arange(len(base_rows))
        order = np.argsort(base_rows)
        return base_rows[order], order

    def kept_of(self, start: int, count: int, ordering: pa.Array | None) -> NDArray[np.bool_]:
        """As ``kept``, by the positions of records; only if ``is_placed``.

        Args:
            start: position of the next record in the base file.
            count: of the next records.
            ordering: as that of ``kept``.
        """
        base_rows, order = self._base_rows
        inside = slice(np.searchsorted(base_rows, start), np.searchsorted(base_rows, start + count))
        return self._kept(count, base_rows[inside] - start, order[inside], ordering)

    def kept(self, keys: pa.Array, ordering: pa.Array | None) -> NDArray[np.bool_]:
        """Which records of the base file stay as they are, shape (n,).

        Args:
            keys: of the next records, shape (n,).
            ordering: their ordering values, shape (n,); None if these do not count.

        Raises:
            UnsupportedTableError: see ``require_known``.
        """
        rows, numbers = self._sought.found_in(keys)
        # Of records that repeat a key, Hudi merges the first one.
        numbers, firsts = np.unique(numbers, return_index=True)
        is_first = ~self._met[numbers]
        self.has_repeats |= int(is_first.sum()) < len(rows)
        numbers, rows = numbers[is_first], rows[firsts][is_first]
        self._met[numbers] = True
        return self._kept(len(keys), rows, numbers, ordering)

    def _kept(
        self, count: int, rows: NDArray[np.intp], numbers: NDArray[np.intp], ordering: pa.Array | None
    ) -> NDArray[np.bool_]:
        """Which of the next records stay; some of them, at ``rows``, meet the changes of ``numbers``."""
        kept = np.ones(count, np.bool_)
        if ordering is None or not len(rows):
            kept[rows] = False
            return kept
        changes = self.latest.select([ORDERING, ALWAYS]).take(pa.array(numbers))
        always = changes[ALWAYS].to_numpy()
        stored = ordering.take(pa.array(rows))
        require_known(stored.filter(pa.array(~always)))
        wins = is_at_least(one_array(changes[ORDERING]), comparable(stored)) | always
        kept[rows[wins]] = False
        self._lost[numbers[~wins]] = True
        return kept

    def added(self) -> NDArray[np.int64]:
        """Positions of the records of log files that are new or replace others, in rising order, shape (n,)."""
        positions = self.latest[POSITION].to_numpy()
        winning = positions[~self._lost & (positions != NO_RECORD)]
        # Most records of log files win: to mark them takes less time than to sort them.
        is_winning = np.zeros(winning.max(initial=NO_RECORD) + 1, np.bool_)
        is_winning[winning] = True
        return np.flatnonzero(is_winning)
