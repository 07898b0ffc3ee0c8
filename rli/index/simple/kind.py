"""The kinds ``simple:`` and ``global-simple:``: there is nothing to make, to open or to remove."""

from __future__ import annotations

from rli.errors import SettingsError
from rli.index.contract import IndexKind, IndexOptions
from rli.index.reports import Scope
from rli.index.simple.table_index import SimpleIndex, require_unique
from rli.index.simple.verifying import verify_keys
from rli.model import KeyMode
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.time_travel import whole_snapshot


class SimpleKind(IndexKind):
    """The simple index.

    Args:
        url: of all its indexes.
        scope: where a key is unique.
    """

    def __init__(self, url: str, scope: Scope) -> None:
        self._url = url
        self._scope = scope

    @property
    def has_store(self) -> bool:
        return False

    def require_valid(self, url: str, options: IndexOptions) -> None:
        if url != self._url:
            raise SettingsError(f"the URL of this index has no further parts: index={url}; write {self._url}")
        if options.shards is not None or options.key_mode != KeyMode.EXACT:
            raise SettingsError(
                f"this index keeps no entries: index={url} shards={options.shards} key_mode={options.key_mode}; leave "
                "shards and key_mode out, or choose an index in a store, such as lmdb:///path"
            )

    def create(self, table: TableDefinition, options: IndexOptions) -> SimpleIndex:  # noqa: ARG002
        return self.open(table)

    def open(self, table: TableDefinition) -> SimpleIndex:
        self.require_valid(table.index_url, IndexOptions())
        return SimpleIndex(table, self._scope)

    def require_own(self, table: TableDefinition, url: str) -> None:
        """Pass every table: no index is in the way."""

    def rebuild(
        self,
        table: TableDefinition,
        options: IndexOptions,  # noqa: ARG002
        tasks: TaskRunner,  # noqa: ARG002
    ) -> tuple[SimpleIndex, int]:
        """There is nothing to build; the keys are checked."""
        report = verify_keys(whole_snapshot(table), self._scope)
        require_unique(table, self._scope, report)
        return self.open(table), report.records

    def open_to_relocate(self, table: TableDefinition) -> SimpleIndex:
        return self.open(table)

    def drop_unfinished(self, url: str, table_id: str) -> None:
        """There is nothing to remove."""

    def drop_damaged(self, url: str) -> None:
        """There is nothing to remove."""
