"""Lots: file groups whose rows travel together between Spark's tasks, however few rows each of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from rli.file_group import work_rows
from rli.locations import named_groups
from rli.model import FileGroupId
from rli.write.rows.by_file_group import split_by_code
from rli_spark.rows.row_batches import DATA, SHUFFLE_KEY, packed, sent, shared_out, shuffle_keys, unpack

LOT: Final = "lot"
"""Column of a row batch: the number of the lot that all of its rows belong to."""

IN_LOTS: Final = pa.schema([(SHUFFLE_KEY, pa.int32()), (LOT, pa.int32()), (DATA, pa.binary())])

BYTES_PER_LOT: Final = 16 * 1024 * 1024
"""Of rows. A task holds a lot in memory; a file group with more rows is a lot by itself."""


@dataclass(frozen=True, slots=True)
class Lots:
    """Shares file groups out to tasks, and those of a task to lots. Picklable, as arrays: each task unpickles all of it.

    Attributes:
        tasks: how many get rows.
        names: of the file groups, as ``_names_of`` gives them.
        numbers: of each file group's lot, shape (file groups,).
        shuffle_keys: of each lot: says which task gets it.
    """

    tasks: int
    names: pa.StringArray
    numbers: NDArray[np.int32]
    shuffle_keys: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Mapping[FileGroupId, float], row_bytes: Mapping[FileGroupId, float], tasks: int) -> Lots:
        """Lots of file groups, so that tasks have about the same work.

        Args:
            sizes: each file group → the work that it makes.
            row_bytes: each of them → about how many bytes of rows it gets.
            tasks: at most so many are used.
        """
        used = max(1, min(tasks, len(sizes)))
        key_of_task = shuffle_keys(used)
        lots, keys = dict[FileGroupId, int](), list[int]()
        lot_of_task, room = dict[int, int](), dict[int, float]()
        for group, task in shared_out(sizes, used).items():
            if task not in lot_of_task or room[task] < row_bytes[group]:
                lot_of_task[task], room[task] = len(keys), BYTES_PER_LOT
                keys.append(key_of_task[task])
            lots[group] = lot_of_task[task]
            room[task] -= row_bytes[group]
        return cls(used, _names_of(list(lots)), np.array(list(lots.values()), np.int32), tuple(keys))

    def lots_of(self, groups: Sequence[FileGroupId]) -> NDArray[np.int32]:
        """The number of the lot of each of some file groups, shape (n,)."""
        return self.numbers[pc.index_in(_names_of(groups), value_set=self.names).to_numpy(zero_copy_only=True)]

    def in_lots(self, rows: pa.Table, columns: tuple[str, str] = work_rows.FILE_GROUP) -> pa.Table:
        """Work rows as row batches of ``IN_LOTS``, one for each lot.

        Args:
            rows: work rows.
            columns: name the file group that counts.
        """
        named = named_groups(*(rows.column(name).combine_chunks() for name in columns))
        lot_of_code = self.lots_of(cast("list[FileGroupId]", named.groups))
        present, codes = np.unique(lot_of_code[named.codes], return_inverse=True)
        parts = split_by_code(rows, codes, len(present))
        numbers = present.tolist()
        keys = [self.shuffle_keys[number] for number in numbers]
        return pa.table([keys, numbers, [packed(part) for part in parts]], schema=IN_LOTS)

    def arranged(self, batches: DataFrame) -> DataFrame:
        """Row batches of ``IN_LOTS``, each lot in one task, one lot after the other."""
        return sent(batches, self.tasks).sortWithinPartitions(LOT)


def _names_of(groups: Sequence[FileGroupId]) -> pa.StringArray:
    """A distinct string for each file group."""
    return pa.array(
        [f"{len(group.partition_path)} {group.partition_path}{group.file_id}" for group in groups], pa.string()
    )


def whole_lots(batches: Iterable[tuple[int, bytes | pa.Buffer]]) -> Iterator[tuple[int, pa.Table]]:
    """The number and all rows of each lot, from the numbers and contents of row batches in the order of their lots."""
    for number, parts in groupby(batches, key=itemgetter(0)):
        yield number, pa.concat_tables([unpack(content) for _, content in parts])
