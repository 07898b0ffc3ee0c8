"""The index of a table as a part of its store: whose it is, who shares it, and whether it is still there."""

from __future__ import annotations

from rli.errors import IndexNotFoundError
from rli.index.record.entries.identity import give_identity, identity_of
from rli.index.record.table_record_index import TableRecordIndex
from rli.index.roles import KeptInStore
from rli.store.contract import Store


class InStore(TableRecordIndex, KeptInStore):
    """The index of a table with its store."""

    @property
    def identity(self) -> str | None:
        return identity_of(self.store)

    @property
    def shared_store(self) -> Store | None:
        return self.store

    def prepare_for_writing(self) -> None:
        give_identity(self.store)

    def is_gone(self) -> bool:
        try:
            self.applied_sequence()
        except IndexNotFoundError:
            return True
        return False
