"""Ties between records of one key: rows of a frame have no order, so their content decides, always in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from rli.write.engine import Keying

_TIE_BREAKER: Final = "_rli_tie_breaker"


@dataclass(frozen=True, slots=True)
class Tied(Keying):
    """Keys rows of ``with_tie_breaker``, which stay behind the keyed rows.

    Attributes:
        keying: of the rows without it.
    """

    keying: Keying
    has_records: ClassVar[bool] = True

    def keyed(self, rows: pa.Table) -> pa.Table:
        keyed = self.keying.keyed(rows.drop_columns(_TIE_BREAKER))
        return keyed.append_column(_TIE_BREAKER, rows.column(_TIE_BREAKER))

    def distinct(self, keyed: pa.Table) -> pa.Table:
        distinct = self.keying.distinct(keyed)
        # Of equals their order decides, so rows are sorted first, to make ties deterministic.
        order = [(name, "ascending") for name in (*self.keying.order, _TIE_BREAKER)]
        return keyed if distinct is keyed else self.keying.distinct(keyed.sort_by(order))


def with_tie_breaker(frame: DataFrame) -> DataFrame:
    """The frame with a hash of each row's content."""
    # As text: each column object takes several round trips to the JVM.
    hashed = ", ".join(_quoted(field.name) for field in frame.schema if not _holds_map(field.dataType))
    return frame.selectExpr("*", f"xxhash64({hashed}) AS {_TIE_BREAKER}")


def _holds_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _holds_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_holds_map(field.dataType) for field in kind)
    return isinstance(kind, MapType)


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"
