"""Memory for what merges have learned is bounded, and serves what was asked for last."""

from __future__ import annotations

import numpy as np

from rli.view.merging.known_merges import MergedRows, Remembered


def rows(number: int) -> MergedRows:
    return MergedRows(np.arange(number), np.empty(0, np.int64), ())


def test_last_asked_values_are_kept() -> None:
    kept = Remembered[MergedRows](3 * (rows(100).nbytes + 512))
    for key in "abc":
        kept.keep(key, rows(100))
    assert kept.get("a") is not None
    kept.keep("d", rows(100))
    # Larger than all others together: it would drive them out.
    kept.keep("e", rows(1_000))
    assert [kept.get(key) is not None for key in "abcde"] == [True, False, True, True, False]


def test_places_in_base_files() -> None:
    merged = MergedRows(np.array([0, 2, 3, 7]), np.empty(0, np.int64), ())
    stays = [one for one in range(10) if one not in {0, 2, 3, 7}]
    assert merged.rows_of_base(np.arange(6)).tolist() == stays
    assert merged.kept(4, 3) is None
    kept = merged.kept(1, 4)
    assert kept is not None
    assert kept.tolist() == [True, False, False, True]
