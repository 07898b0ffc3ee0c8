"""Looking at a table: each room is asked for its findings, in an order in which a later look may rely on the earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rli.cli.checkup.column_indexes import column_index_findings
from rli.commit.findings import lease_finding, torn_findings, writer_findings
from rli.commit.readiness import require_synced
from rli.coordination.findings import lock_findings, log_insert_findings
from rli.coordination.job_options import job_findings
from rli.errors import IndexNotReadyError, RliError
from rli.findings import Finding, Verdict, problem
from rli.index.findings import count_findings
from rli.index.record.findings import index_findings
from rli.index.registry import default_lease, index_kind
from rli.metadata_table.findings import metadata_findings
from rli.sizes import human_bytes
from rli.storage import Storage
from rli.storage.findings import disk_findings
from rli.table.opened import OpenTable
from rli.view.definition import TableDefinition, load_definition
from rli.view.file_findings import Commits, commits_of, file_findings, unlike_its_commit
from rli.view.file_slice_reader import FileSliceReader
from rli.view.findings import definition_findings, depth_findings, timeline_findings
from rli.view.registration import has_other_index, with_index_at
from rli.view.snapshot import Snapshot
from rli.view.time_travel import is_latest

_NAMED: Final = 5

_LOOKS: Final = 3


class TableCheckup:
    """Looks at a table and its index, whatever their state.

    Args:
        location: folder of the table.
        index_url: where its index is; None for the index that the table names.
        job_options: options of a job of Hudi that writes the table beside rli; None for no job.

    Attributes:
        findings: what was found so far.
    """

    def __init__(self, location: str, index_url: str | None, job_options: Mapping[str, str] | None = None) -> None:
        self.findings: list[Finding] = []
        self._job_options = job_options
        self._storage = Storage(location)
        self._index_url = index_url

    def run(self) -> list[Finding]:
        """Look at everything that can be looked at; again if the table got another index meanwhile."""
        for _ in range(_LOOKS):
            self.findings = []
            try:
                definition = load_definition(self._storage)
            except RliError as error:
                self.findings.append(problem("table", error))
                return self.findings
            self._look_at(definition)
            if all(found.verdict is Verdict.OK for found in self.findings) or not has_other_index(definition):
                break
        return self.findings

    def _look_at(self, definition: TableDefinition) -> None:
        self.findings.extend(definition_findings(definition))
        self.findings.extend(disk_findings(self._storage))
        snapshot, records = self._look_at_state(definition)
        if self._job_options is not None:
            self.findings.extend(job_findings(definition, self._job_options, snapshot))
        url = self._index_url or (definition.index_url if definition.settings else None)
        if url is None:
            self.findings.append(
                Finding(
                    "index",
                    Verdict.PROBLEM,
                    "the table has no index: rli can read it, but not write it",
                    "run: rli index bootstrap TABLE --index URL",
                )
            )
            return
        if index_kind(url).has_store:
            self.findings.extend(index_findings(url))
        self._look_at_index_of(definition, snapshot, records)

    def _look_at_state(self, definition: TableDefinition) -> tuple[Snapshot | None, int | None]:
        """The table's state and how many records it holds; None where it cannot be told.

        Where others change the table meanwhile, a problem counts only if a later look finds one, too.
        """
        known, looks = len(self.findings), 0
        while True:
            looks += 1
            snapshot, records = self._look_at_timeline_and_files(definition)
            is_sound = all(found.verdict is Verdict.OK for found in self.findings[known:])
            if is_sound or looks == _LOOKS or (snapshot is not None and is_latest(snapshot)):
                return snapshot, records
            del self.findings[known:]

    def _look_at_timeline_and_files(self, definition: TableDefinition) -> tuple[Snapshot | None, int | None]:
        try:
            snapshot = Snapshot.now(definition)
            commits = commits_of(snapshot)
            _ = snapshot.schema, snapshot.replaced
        except RliError as error:
            self.findings.append(problem("timeline", error))
            return None, None
        self.findings.extend(timeline_findings(snapshot.timeline))
        self.findings.extend(metadata_findings(snapshot))
        self.findings.extend(lock_findings(snapshot))
        return snapshot, self._look_at_files(snapshot, commits)

    def _look_at_files(self, snapshot: Snapshot, commits: Commits) -> int | None:
        """How many records the live base files hold by their footers; None where a file is missing or damaged."""
        try:
            slices = dict(snapshot.slices)
            of_logs = [*depth_findings(snapshot), *log_insert_findings(snapshot, commits)]
            found = [*of_logs, *file_findings(snapshot, commits)]
        except RliError as error:
            self.findings.append(problem("base files", error))
            return None
        self.findings.extend(found)
        rows, damaged = 0, 0
        logs = sum(len(file_slice.logs) for file_slice in slices.values())
        for file_slice in (one.without_logs() for one in slices.values() if one.base is not None):
            try:
                with FileSliceReader(self._storage, file_slice) as reader:
                    rows += reader.rows
                    unlike = unlike_its_commit(reader, file_slice, commits)
                if unlike is not None:
                    found.append(Finding("base files", Verdict.PROBLEM, unlike, "restore the file from a backup"))
                    self.findings.append(found[-1])
            except RliError as error:
                damaged += 1
                if damaged <= _NAMED:
                    self.findings.append(problem("base files", error))
        size = human_bytes(sum(file_slice.size for file_slice in slices.values()))
        if damaged or any(finding.verdict is Verdict.PROBLEM for finding in found):
            return None
        told = f"files={len(slices):,} records={rows:,} size={size}"
        if logs:
            # The number of records is known only after a merge.
            told = f"file_groups={len(slices):,} log_files={logs:,} records_of_base_files={rows:,} size={size}"
        self.findings.append(Finding("base files", Verdict.OK, told))
        return None if logs else rows

    def _look_at_index_of(self, definition: TableDefinition, snapshot: Snapshot | None, records: int | None) -> None:
        """Do the table and its index belong together, and does the index follow the table?"""
        if any(found.verdict is Verdict.PROBLEM and found.check in ("store", "index") for found in self.findings):
            return
        elsewhere = self._index_url if definition.settings is not None else None
        table = OpenTable(
            definition if elsewhere is None else with_index_at(definition, elsewhere, default_lease(elsewhere))
        )
        try:
            index = table.index
        except RliError as error:
            self.findings.append(problem("index", error))
            return
        try:
            self.findings.append(lease_finding(definition, index))
            torn = list(torn_findings(definition, index))
            if torn:
                self.findings.extend(torn)
                return
            self.findings.extend(writer_findings(definition, index, snapshot))
            require_synced(definition, index)
            self.findings.append(Finding("sync", Verdict.OK, "the index has applied all commits of the table"))
            # Commits made meanwhile are in the index, and not among the records that were counted.
            if records is not None and snapshot is not None and is_latest(snapshot):
                self.findings.extend(count_findings(index, records))
            self.findings.extend(column_index_findings(table))
        except IndexNotReadyError as error:
            self.findings.append(problem("sync", error))
        except RliError as error:
            self.findings.append(problem("index", error))
        finally:
            table.close()
