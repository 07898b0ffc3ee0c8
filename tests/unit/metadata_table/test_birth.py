from __future__ import annotations

import pyarrow as pa
import pytest

from rli.errors import RepeatedKeyError
from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.partitions import PartitionKind
from rli.metadata_table.birth import unrepeated


@pytest.mark.parametrize("batches", [[[b"a", b"a"]], [[b"a", b"b"], [b"b"]]])
def test_key_in_two_places_is_refused(batches: list[list[bytes]]) -> None:
    cells = (pa.record_batch([keys, keys], schema=CELLS) for keys in batches)
    with pytest.raises(RepeatedKeyError, match="occurs twice"):
        [*unrepeated(cells, PartitionKind.RECORD_INDEX)]
