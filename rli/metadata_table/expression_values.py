"""The values of an indexed expression in base files, where Hudi would compute the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.column_index.expressions import IndexedExpression
from rli.errors import InvalidInputError
from rli.hudi.partition_values import with_values_left_out
from rli.view.file_slices import FileSlice
from rli.view.slice_readers import SliceReaders
from rli.view.snapshot import Snapshot

_FOLDED: Final[Mapping[str, Callable[[str], str]]] = {"lower": str.lower, "upper": str.upper}
"""Functions of letters → as Java has them, with letters that become two, and those that depend on their place."""

_ASCII: Final = r"^[\x00-\x7f]*$"
_SECONDS: Final = (-62_135_596_800, 253_402_300_799)
"""Since 1970, of the years 1 to 9999: others have no four digits."""


@dataclass(frozen=True, slots=True)
class ExpressionValues:
    """Computes the values of one index on an expression.

    Attributes:
        index: the index.
        function: Hudi's name of the expression's function; "" if Hudi does not know the index.
        snapshot: a state of the table.
        schema: of its records, without meta columns.
    """

    index: IndexedExpression
    function: str
    snapshot: Snapshot
    schema: pa.Schema

    def of_slice(self, file_slice: FileSlice) -> Iterator[pa.ChunkedArray]:
        """The values of the records of a slice, in batches; raises as ``of_records``."""
        schema = pa.schema([self.schema.field(self.index.column)])
        with SliceReaders(self.snapshot.table, self.schema).open(file_slice) as reader:
            for batch in reader.batches(schema):
                yield self.of_records(batch, file_slice)

    def of_records(self, batch: pa.Table, file_slice: FileSlice) -> pa.ChunkedArray:
        """The values of some records of a slice.

        Raises:
            InvalidInputError: the expression cannot be computed for a record, or Hudi would compute another value.
        """
        properties = self.snapshot.table.properties
        records = with_values_left_out(properties, batch, file_slice.group.partition_path)
        values = self.index.value.of_table(records)
        if self._differs_in_java(records[self.index.column], values):
            raise InvalidInputError("Java computes another value", remedy="keep nothing of the file")
        return values

    def _differs_in_java(self, column: pa.ChunkedArray, values: pa.ChunkedArray) -> bool:
        """Whether Hudi would compute other values of some records."""
        if fold := _FOLDED.get(self.function):
            is_plain = pc.match_substring_regex(column, _ASCII)
            given, folded = (part.filter(pc.invert(is_plain)).to_pylist() for part in (column, values))
            return any(one is not None and fold(one) != other for one, other in zip(given, folded, strict=True))
        if self.function == "from_unixtime":
            return bool(pc.any(pc.or_(pc.less(column, _SECONDS[0]), pc.greater(column, _SECONDS[1]))).as_py())
        return False
