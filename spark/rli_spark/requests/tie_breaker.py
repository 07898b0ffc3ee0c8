"""Ties between records of one key: rows of a frame have no order, so their content decides, always in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.content_hashes import content_hashes
from rli.write.rows.keying import Keying
from rli.write.rows.tally import Tally

_CONTENT: Final = "_rli_content"


@dataclass(frozen=True, slots=True)
class Tied(Keying):
    """Keys rows that have no order.

    Attributes:
        keying: of rows that have one.
    """

    keying: Keying
    has_records: ClassVar[bool] = True

    def keyed(self, rows: pa.Table) -> pa.Table:
        return self.keying.keyed(rows)

    def received(self, keyed: pa.Table) -> Tally:
        return self.keying.received(keyed)

    def distinct(self, keyed: pa.Table) -> pa.Table:
        distinct = self.keying.distinct(keyed)
        if distinct is keyed:
            return keyed
        # Of equals their order decides, so rows are sorted first, to make ties deterministic.
        deciding = keyed.select(self.keying.order).append_column(_CONTENT, pa.array(content_hashes(keyed)))
        order = pc.sort_indices(deciding, [(name, "ascending") for name in deciding.column_names])
        return self.keying.distinct(keyed.take(order))
