"""The index of a table whose own index in a store is not built: records are found in the files, the store keeps the lease."""

from __future__ import annotations

from dataclasses import dataclass

from rli.hudi.timeline.instant import instant_before
from rli.index.contract import TableIndex
from rli.index.locators import Locator
from rli.index.roles import SharesStore
from rli.index.simple.table_index import SimpleIndex
from rli.index.table_files.state import TableState
from rli.index_urls import IndexUrl
from rli.store.contract import Store
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExpiringTableState(TableState):
    """A state of the table in which records of expired keys count as absent.

    Attributes:
        ttl: seconds for which a key is known after the last commit that wrote its record.
    """

    ttl: int

    def locator_at(self, instant: str) -> Locator:  # noqa: ARG002  (the caller leaves expired records out)
        return self.locator()

    def expired_before(self, instant: str) -> str | None:
        return instant_before(instant, self.ttl)


class StandIn(SimpleIndex, SharesStore):
    """Stands in for an index in a store, with its scope and its time to live, until that one is built.

    Args:
        table: the table; its settings hold the URL of the index in the store.
        kept: the index in the store; closed with the stand-in.
    """

    def __init__(self, table: TableDefinition, kept: TableIndex) -> None:
        super().__init__(table, kept.scope)
        self._kept = kept
        self._ttl = IndexUrl.parse(table.index_url).ttl

    def state_of(self, snapshot: Snapshot) -> TableState:
        return TableState(snapshot, self) if self._ttl is None else ExpiringTableState(snapshot, self, self._ttl)

    @property
    def shared_store(self) -> Store | None:
        return self._kept.shared_store if isinstance(self._kept, SharesStore) else None

    def close(self) -> None:
        self._kept.close()
