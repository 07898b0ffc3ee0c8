"""Table, index and Hudi's readers hold what a history expects."""

from __future__ import annotations

from tests.support.histories import History
from tests.support.hudi import HudiEngine
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows


def require_agreement(history: History) -> None:
    """The table holds the rows of the history, and its index agrees with it."""
    assert sorted_rows(history.table.read()) == history.rows
    report = history.table.verify_index()
    assert report.agrees
    assert report.records == len(history.rows)


def require_hudi_agrees(engine: HudiEngine, history: History) -> None:
    """Hudi's Spark reader and hudi-rs find the rows of the history."""
    assert sorted_rows(without_meta_columns(engine.read(history.path))) == history.rows
    assert sorted_rows(read_with_hudi_rs(history.path)) == history.rows
