"""Values of chosen columns in the records that a write changes, noted by the process that merges the records.

Indexes of columns follow a commit of their own process by them, and read no file again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.file_group.merge import changed_records
from rli.hudi.meta_columns import RECORD_KEY


@dataclass(frozen=True, slots=True)
class ChangedValues:
    """Record keys (``_hoodie_record_key``) and values of some columns, in the records that a write changes.

    Attributes:
        before: the records that go or are replaced, as they were; none of a file group that gets a log file.
        after: the records that are written and not only copied.
    """

    before: pa.Table
    after: pa.Table

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self | None:
        """The changes of several file groups as one; None if there are none."""
        found = [*parts]
        if not found:
            return None
        return cls(pa.concat_tables([one.before for one in found]), pa.concat_tables([one.after for one in found]))

    def has(self, column: str) -> bool:
        """Whether the values of a column are known."""
        return column in self.after.column_names


class ChangeNotes:
    """Notes the changed values of one file group, while its records are merged batch by batch.

    Args:
        columns: names of the columns to note; if there are none, nothing is noted.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._names = [RECORD_KEY, *columns]
        self._is_noting = bool(columns)
        self._before: list[pa.Table] = []
        self._after: list[pa.Table] = []

    def note(self, stored: pa.Table, records: pa.Table, fates: NDArray[np.int64]) -> None:
        """Note what becomes of a batch of stored records.

        Args:
            stored: the batch.
            records: replacements as they are written, one for each work row.
            fates: of the batch, as ``MergePlan.fates``.
        """
        if self._is_noting:
            replaced = fates[fates >= 0]
            self._before.append(stored.select(self._names).take(pa.array(changed_records(fates))))
            self._after.append(records.select(self._names).take(pa.array(replaced)))

    def changed(self, added: pa.Table) -> ChangedValues | None:
        """The changed values.

        Args:
            added: the records that the file group gains.
        """
        if not self._is_noting:
            return None
        after = [*self._after, added.select(self._names)]
        before = self._before or [after[0].slice(0, 0)]
        return ChangedValues(pa.concat_tables(before), pa.concat_tables(after))
