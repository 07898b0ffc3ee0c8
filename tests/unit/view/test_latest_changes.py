"""Changes of log files are folded alike by positions in the base file and by keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rli.hudi.log_file.base_rows import UNKNOWN
from rli.view.merging.latest_changes import BASE_ROW, KEY, ORDERING, POSITION, LatestChanges, changes, with_base_rows

CHANGES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.booleans(), st.booleans()), max_size=40)
"""Number of the key, ordering value, whether the change is a delete, and whether that wins always."""


def folded(
    drawn: list[tuple[int, int, bool, bool]], distance: int | None, *, is_ordered: bool
) -> list[tuple[object, ...]]:
    """The last changes, with the positions of keys at a distance from each other, or without positions."""
    latest = LatestChanges(pa.int64() if is_ordered else pa.null())
    for number, (key, value, is_delete, is_always) in enumerate(drawn):
        ordering = pa.array([value], pa.int64()) if is_ordered else pa.nulls(1)
        positions = np.array([-1 if is_delete else number])
        always = np.array([is_ordered and is_delete and is_always])
        one = changes(pa.array([f"k{key}"]), ordering, always, positions, of_records=not is_delete)
        latest.add(with_base_rows(one, None if distance is None else np.array([key * distance])))
    found = latest.folded()
    rows = found.select([KEY, ORDERING, POSITION]).to_pylist()
    expected = {UNKNOWN} if distance is None else {int(row[KEY][1:]) * distance for row in rows}
    assert {*found[BASE_ROW].to_pylist()} <= expected
    return sorted((row[KEY], row[ORDERING], row[POSITION]) for row in rows)


@given(st.booleans(), CHANGES)
def test_positions_serve_as_keys(is_ordered: bool, drawn: list[tuple[int, int, bool, bool]]) -> None:  # noqa: FBT001  (drawn)
    by_key = folded(drawn, None, is_ordered=is_ordered)
    # Close to each other, positions are codes as they are; far from each other, they are numbered.
    for distance in (1, 10, 1_000_000_000):
        assert folded(drawn, distance, is_ordered=is_ordered) == by_key
    assert len(by_key) == len({key for key, *_ in drawn})
