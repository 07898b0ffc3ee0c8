from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rli.hudi.hfile.cells import CELLS
from rli.metadata_table.cell_sorter import CellSorter

_KEYS = st.lists(st.tuples(st.sampled_from("ab"), st.binary(max_size=3)), max_size=60)


def _cells(keys: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch([keys, keys], schema=CELLS)


@given(st.lists(_KEYS, max_size=6), st.sampled_from([1, 500, 1 << 20]))
def test_cells_come_in_order(batches: list[list[tuple[str, bytes]]], most_bytes: int) -> None:
    """Also with runs in files."""
    with CellSorter(most_bytes) as sorter:
        for batch in batches:
            for group in "ab":
                sorter.add(group, _cells([key for found, key in batch if found == group]))
        for group in "ab":
            found = [key for cells in sorter.sorted(group) for key in cells["key"].to_pylist()]
            assert found == sorted(key for batch in batches for owner, key in batch if owner == group)
            assert (group in sorter.file_ids) == bool(found)
