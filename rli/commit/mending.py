"""Making an index agree with its table by a look at all of both."""

from __future__ import annotations

from functools import partial

from rli.index.record.record_index import RecordIndex
from rli.index.record.sync.repair import repair
from rli.index.record.sync.sync import sync
from rli.index.record.sync.verify import VerifyReport, whole_state
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition


def mend_index(table: TableDefinition, index: RecordIndex, tasks: TaskRunner) -> VerifyReport:
    """Make the index say what the table says; returns what was wrong. The caller holds the lease."""
    look = partial(whole_state, table, partial(sync, table, index, tasks))
    while True:
        report = repair(look, index, tasks)
        if report is not None:
            return report
