"""A kind of index without data of its own: there is nothing to make, to open or to remove."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from rli.errors import SettingsError
from rli.index.kinds import IndexKind
from rli.index.table_files.table_index import TableFilesIndex
from rli.model import Scope
from rli.view.definition import TableDefinition


class TableFilesKind(IndexKind):
    """A kind whose indexes keep nothing of their own."""

    @abstractmethod
    def index_of(self, table: TableDefinition) -> TableFilesIndex:
        """The index of a table whose URL is of this kind, and valid."""

    @property
    def has_store(self) -> bool:
        return False

    def open(self, table: TableDefinition) -> TableFilesIndex:
        self.require_url(table.index_url)
        return self.index_of(table)

    def require_own(self, table: TableDefinition, url: str) -> None:
        """Pass every table: no index is in the way."""


class BareKind(TableFilesKind):
    """A kind without options: its URL is a scheme, which a colon ends.

    Args:
        scheme: of the URL of all its indexes.
        scope: where a key is unique.
        index_of: the index of a table, with that scope.
    """

    def __init__(
        self, scheme: str, scope: Scope, index_of: Callable[[TableDefinition, Scope], TableFilesIndex]
    ) -> None:
        self._scheme = scheme
        self._scope = scope
        self._index_of = index_of

    def scope_of(self, url: str) -> Scope:  # noqa: ARG002  (the kind itself says)
        return self._scope

    def require_url(self, url: str) -> None:
        if url != f"{self._scheme}:":
            raise SettingsError(
                f"the URL of this index has no further parts: index={url}", remedy=f"write {self._scheme}:"
            )

    def index_of(self, table: TableDefinition) -> TableFilesIndex:
        return self._index_of(table, self._scope)
