"""Looking at a table: are its files, its timeline and its index in order?"""

from __future__ import annotations

import shutil
from typing import Final

from rli.cli.checkup.files import Commits, commits_of, look_at_files, unlike_its_commit
from rli.cli.checkup.store import look_at_index, problem
from rli.cli.output import human_bytes
from rli.commit.findings import lease_finding, torn_findings, writer_findings
from rli.commit.readiness import require_synced
from rli.errors import IndexNotReadyError, RliError
from rli.hudi.table_features import require_writable
from rli.index.contract import PointIndex, TableIndex
from rli.index.registry import default_lease, index_kind
from rli.storage import Storage
from rli.store.health import Finding, Verdict
from rli.table.opened import OpenTable
from rli.view import paths
from rli.view.definition import TableDefinition, load_definition
from rli.view.file_slice_reader import FileSliceReader
from rli.view.registration import has_other_index, stores_password, with_index_at
from rli.view.snapshot import Snapshot
from rli.view.time_travel import is_latest

_LEAST_FREE_BYTES: Final = 1 << 30
_NAMED: Final = 5

_LOOKS: Final = 3

_MANY_COMMITS: Final = 180
"""On the active timeline: twice as many as writers leave there by default."""


class TableCheckup:
    """Looks at a table and its index, whatever their state.

    Attributes:
        findings: what was found so far.
    """

    def __init__(self, location: str, index_url: str | None) -> None:
        self.findings: list[Finding] = []
        self._storage = Storage(location)
        self._index_url = index_url
        self._commits: Commits = {}

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
        self._look_at_properties(definition)
        self._look_at_password(definition)
        self._look_at_disk()
        snapshot, records = self._look_at_state(definition)
        url = self._index_url or (definition.index_url if definition.settings else None)
        if url is None:
            self._add(
                "index",
                "the table has no index: rli can read it, but not write it",
                Verdict.PROBLEM,
                "run: rli index bootstrap TABLE --index URL",
            )
            return
        if index_kind(url).has_store:
            self.findings.extend(look_at_index(url))
        self._look_at_index_of(definition, snapshot, records)

    def _add(self, check: str, detail: str, verdict: Verdict = Verdict.OK, advice: str | None = None) -> None:
        self.findings.append(Finding(check, verdict, detail, advice))

    def _look_at_properties(self, definition: TableDefinition) -> None:
        properties = definition.properties
        detail = (
            f"name={properties.name} version={properties.version} keys={','.join(properties.record_key_fields)} "
            f"partitions={','.join(properties.partition_fields) or 'none'} "
            f"ordering={properties.ordering_field or 'none'}"
        )
        self._add("table", detail)
        try:
            require_writable(properties)
        except RliError as error:
            refused = problem("table", error)
            self._add("writing", refused.detail, Verdict.WARNING, refused.advice)
        if properties.metadata_partitions:
            self._add(
                "metadata table",
                "Hudi's metadata table is on, and rli does not write it",
                Verdict.WARNING,
                "nothing: rli's next write switches it off, Hudi's next write rebuilds it",
            )

    def _look_at_password(self, definition: TableDefinition) -> None:
        if stores_password(definition):
            self._add(
                "password",
                f"the password of the index is in a file of the table: file={paths.SETTINGS}",
                Verdict.WARNING,
                "write it into ~/.config/rli/credentials.toml (docs/security.md), then remove it from index_url in that file; "
                "better, change the password: others may have read it",
            )

    def _look_at_disk(self) -> None:
        if not self._storage.is_local:
            return
        free = shutil.disk_usage(self._storage.root).free
        if free < _LEAST_FREE_BYTES:
            self._add("disk", f"little room: free={human_bytes(free)}", Verdict.WARNING, "free space on this disk")
        else:
            self._add("disk", f"free={human_bytes(free)}")

    def _look_at_state(self, definition: TableDefinition) -> tuple[Snapshot | None, int | None]:
        """The table's state and how many records it holds; None where it cannot be told.

        Where others change the table meanwhile, a problem counts only if a later look finds one, too.
        """
        known, looks = len(self.findings), 0
        while True:
            looks += 1
            snapshot = self._look_at_timeline(definition)
            records = None if snapshot is None else self._look_at_files(snapshot)
            is_sound = all(found.verdict is Verdict.OK for found in self.findings[known:])
            if is_sound or looks == _LOOKS or (snapshot is not None and is_latest(snapshot)):
                return snapshot, records
            del self.findings[known:]

    def _look_at_timeline(self, definition: TableDefinition) -> Snapshot | None:
        """The table's state, None where it cannot be told."""
        try:
            snapshot = Snapshot.now(definition)
            self._commits = commits_of(snapshot)
            _ = snapshot.schema, snapshot.replaced
        except RliError as error:
            self.findings.append(problem("timeline", error))
            return None
        timeline = snapshot.timeline
        self._add(
            "timeline",
            f"instants={len(timeline.instants)} commits={len(timeline.completed_writes)} "
            f"pending={len(timeline.pending)} last={timeline.latest_write.time if timeline.latest_write else 'none'}",
        )
        if len(timeline.completed_writes) > _MANY_COMMITS:
            self._add(
                "maintenance",
                f"a long active timeline slows every read and write: commits={len(timeline.completed_writes)}",
                Verdict.WARNING,
                "run: rli clean TABLE, then rli archive TABLE; to let writers do it: rli maintenance TABLE --on; a "
                "savepoint or a pending instant may keep old commits",
            )
        return snapshot

    def _look_at_files(self, snapshot: Snapshot) -> int | None:
        """How many records the live base files hold by their footers; None where a file is missing or damaged."""
        try:
            slices = dict(snapshot.slices)
            found = list(look_at_files(snapshot, self._commits))
        except RliError as error:
            self.findings.append(problem("base files", error))
            return None
        self.findings.extend(found)
        rows, damaged = 0, 0
        for file_slice in slices.values():
            try:
                with FileSliceReader(self._storage, file_slice) as reader:
                    rows += reader.rows
                    unlike = unlike_its_commit(reader, file_slice, self._commits)
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
        self._add("base files", f"files={len(slices):,} records={rows:,} size={size}")
        return rows

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
            self._add("sync", "the index has applied all commits of the table")
            # Commits made meanwhile are in the index, and not among the records that were counted.
            if snapshot is not None and is_latest(snapshot):
                self._compare_counts(index, records)
        except IndexNotReadyError as error:
            self.findings.append(problem("sync", error))
        except RliError as error:
            self.findings.append(problem("index", error))
        finally:
            table.close()

    def _compare_counts(self, index: TableIndex, records: int | None) -> None:
        if records is None or not isinstance(index, PointIndex) or (entries := index.count()) == records:
            return
        self._add(
            "counts",
            f"index and table hold different numbers of records: entries={entries} records={records}",
            Verdict.PROBLEM,
            "run: rli index verify TABLE, then rli index repair TABLE",
        )
