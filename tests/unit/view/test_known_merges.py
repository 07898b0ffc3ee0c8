"""Places of merged records."""

from __future__ import annotations

import numpy as np

from rli.view.merging.known_merges import MergedRows


def test_places_in_base_files() -> None:
    merged = MergedRows(np.array([0, 2, 3, 7]), np.empty(0, np.int64), (), has_repeats=False)
    stays = [one for one in range(10) if one not in {0, 2, 3, 7}]
    assert merged.rows_of_base(np.arange(6)).tolist() == stays
    assert merged.kept(4, 3) is None
    kept = merged.kept(1, 4)
    assert kept is not None
    assert kept.tolist() == [True, False, False, True]
