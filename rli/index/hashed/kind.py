"""How the index of a table is opened where hashes compute the file groups: there is nothing to make."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from rli.index.hashed.hashed_index import HashedIndex
from rli.index.table_files.kind import TableFilesKind
from rli.model import Scope
from rli.view.definition import TableDefinition
from rli.view.index_binding import IndexBinding


class HashedKind(TableFilesKind):
    """A kind of index by hashes."""

    @abstractmethod
    def index_of(self, table: TableDefinition) -> HashedIndex:
        """As of ``TableFilesKind``."""

    def scope_of(self, url: str) -> Scope:  # noqa: ARG002  (a hash says nothing of other partitions)
        return Scope.PARTITION

    def require_own(self, table: TableDefinition, url: str) -> None:
        """Pass a table whose file groups are the buckets that a URL says; raises ``IndexMismatchError`` for others."""
        self.index_of(replace(table, binding=IndexBinding(url))).require_fitting(table)
