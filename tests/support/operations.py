"""Every operation on a table, for tests of what the modules of rli may do."""

from __future__ import annotations

from rli import Table
from rli.cli.checkup.table import TableCheckup
from tests.support.tables import commit_version


def run_every_operation(table: Table) -> None:
    instants = [commit_version(table, version) for version in range(6)]
    table.savepoint(instants[4])
    table.rollback(instants[5])
    table.restore(instants[4])
    table.delete_savepoint(instants[4])
    table.read(as_of=instants[0])
    table.cluster()
    table.clean(keep_commits=1)
    table.archive(keep_commits=1)
    table.verify_index()
    table.repair_index()
    table.bootstrap_index()
    TableCheckup(table.location, None).run()
