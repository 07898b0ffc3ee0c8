"""How the record index of a table's metadata table is opened."""

from __future__ import annotations

from rli.errors import SettingsError
from rli.index.kinds import InMetadataTable
from rli.index.metadata_record.opening import PARTITION
from rli.index.metadata_record.table_index import MetadataIndex
from rli.index_urls import SCHEME_IN_METADATA_TABLE, IndexUrl
from rli.model import Scope
from rli.view.definition import TableDefinition


class MetadataRecordKind(InMetadataTable):
    """The record index in the metadata table."""

    partition = PARTITION

    @property
    def has_store(self) -> bool:
        return False

    def scope_of(self, url: str) -> Scope:
        return IndexUrl.parse(url).scope

    def require_url(self, url: str) -> None:
        named = IndexUrl.parse(url)
        if named != IndexUrl(f"{SCHEME_IN_METADATA_TABLE}:", named.scope):
            raise SettingsError(
                f"the URL of this index has another part than its scope: index={url}",
                remedy=f"write {SCHEME_IN_METADATA_TABLE}: or {SCHEME_IN_METADATA_TABLE}:?scope=partition",
            )

    def open(self, table: TableDefinition) -> MetadataIndex:
        self.require_url(table.index_url)
        return MetadataIndex(table, self.scope_of(table.index_url))

    def require_own(self, table: TableDefinition, url: str) -> None:
        """Pass every table: the index is a part of it."""
