"""Making an index agree with its table by a look at all of both."""

from __future__ import annotations

from functools import partial

from rli.index.record_index import RecordIndex
from rli.table.file_groups.tasks import TaskRunner
from rli.table.following.repair import repair
from rli.table.following.sync import sync
from rli.table.following.verify import VerifyReport, whole_state
from rli.table.state.definition import TableDefinition


def mend_index(table: TableDefinition, index: RecordIndex, tasks: TaskRunner) -> VerifyReport:
    """Make the index say what the table says; returns what was wrong. The caller holds the lease."""
    look = partial(whole_state, table, partial(sync, table, index, tasks))
    while True:
        report = repair(look, index, tasks)
        if report is not None:
            return report
