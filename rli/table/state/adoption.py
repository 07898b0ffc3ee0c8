"""Taking a table up: what rli keeps with a table, and where its index is."""

from __future__ import annotations

import posixpath
from typing import Any
from uuid import uuid4

from rli.settings import Maintenance, TableSettings
from rli.table.state import paths
from rli.table.state.definition import TableDefinition
from rli.table.state.index_location import to_stored


def new_table_settings(**values: Any) -> TableSettings:
    """Settings with a new identity; raises ``SettingsError`` for a wrong value."""
    return TableSettings.of(table_id=uuid4().hex, **values)


def adopt(definition: TableDefinition, index_url: str | None) -> TableDefinition:
    """Keep the URL of a table's index with the table, making it one of rli's if it is not yet.

    Args:
        definition: the table.
        index_url: where its index is to be; None to leave it where it is.

    Raises:
        IndexNotReadyError: no URL is given, and none is known.
    """
    if index_url is None:
        definition.require_settings()
        return definition
    found = with_index_at(definition, index_url)
    if found.settings is not None and found.settings != definition.settings:
        definition.storage.write_bytes(paths.SETTINGS, to_stored(found.storage, found.settings))
        definition.storage.sync(folders=[posixpath.dirname(paths.SETTINGS)])
    return found


def with_index_at(definition: TableDefinition, index_url: str) -> TableDefinition:
    """The same table with its index elsewhere, for this process only."""
    stored = definition.settings
    if stored is None:
        # The engine that made the table cleans and archives it as it was told to.
        return definition.with_settings(new_table_settings(index_url=index_url, maintenance=Maintenance.off()))
    return definition.with_settings(stored.model_copy(update={"index_url": index_url}))
