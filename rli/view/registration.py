"""Taking a table up: what rli keeps with a table, and where its index is."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import Any
from uuid import uuid4

from rli.errors import IndexMismatchError, RliError
from rli.model import LeasePlace
from rli.settings import Maintenance, TableSettings
from rli.store.registry import open_store
from rli.urls import StoredUrl, has_secrets, without_secrets
from rli.view import paths
from rli.view.definition import TableDefinition, load_settings
from rli.view.index_location import to_stored


def new_table_settings(**values: Any) -> TableSettings:
    """Settings with a new identity; raises ``SettingsError`` for a wrong value."""
    return TableSettings.of(table_id=uuid4().hex, **values)


def adopt(definition: TableDefinition, index_url: str | None, lease: LeasePlace = LeasePlace.INDEX) -> TableDefinition:
    """Keep the URL of a table's index with the table, making it one of rli's if it is not yet.

    Args:
        definition: the table.
        index_url: where its index is to be; None to leave it where it is.
        lease: where writers agree with such an index. A table that agrees in the store of its index goes over to it.

    Raises:
        IndexNotReadyError: no URL is given, and none is known.
    """
    if index_url is None:
        definition.require_settings()
        if stores_password(definition):
            save_settings(definition)
        return definition
    found = with_index_at(definition, index_url, lease)
    settings = found.require_settings()
    if settings.lease is LeasePlace.INDEX:
        found = found.with_settings(settings.model_copy(update={"lease": lease}))
    if found.settings != definition.settings or definition.stored_url is not None or stores_password(definition):
        save_settings(found)
    return replace(found, stored_url=None)


def save_settings(definition: TableDefinition) -> None:
    """Store the settings with the table, without passwords.

    A password that an earlier version stored is kept if the index cannot be opened without it.
    """
    settings, storage = definition.require_settings(), definition.storage
    content = to_stored(storage, settings)
    if _needs_stored_password(definition):
        content = settings.model_copy(update={"index_url": str(definition.index_url)}).to_json()
    storage.write_bytes(paths.SETTINGS, content)
    storage.sync(folders=[posixpath.dirname(paths.SETTINGS)])


def stores_password(definition: TableDefinition) -> bool:
    """Whether a password is in the settings that are stored with the table."""
    url = definition.given_url
    return isinstance(url, StoredUrl) and has_secrets(url)


def _needs_stored_password(definition: TableDefinition) -> bool:
    if not stores_password(definition):
        return False
    try:
        open_store(StoredUrl(definition.require_settings().index_url)).close()
    except RliError:
        return True
    return False


def with_index_at(definition: TableDefinition, index_url: str, lease: LeasePlace = LeasePlace.INDEX) -> TableDefinition:
    """The same table with its index elsewhere, for this process only.

    Args:
        definition: the table.
        index_url: where its index is.
        lease: where the writers agree of a table that rli has not taken up yet.
    """
    stored, stored_url = definition.settings, definition.stored_url
    if stored is None:
        # The engine that made the table cleans and archives it as it was told to.
        settings = new_table_settings(index_url=index_url, lease=lease, maintenance=Maintenance.off())
    else:
        settings = stored.model_copy(update={"index_url": without_secrets(index_url)})
        stored_url = stored_url or stored.index_url
    return replace(definition, settings=settings, given_url=index_url, stored_url=stored_url)


def require_same_lease(definition: TableDefinition) -> None:
    """Pass a table whose writers still agree where they did when this process opened it (docs/protocol.md, P3).

    Raises:
        IndexMismatchError: the table has been given another index since, whose writers agree elsewhere, or whose record
            keys are unique in another scope.
        CorruptTableError: the settings are damaged.
    """
    opened, (stored, _) = definition.require_settings(), load_settings(definition.storage)
    before, now = definition.stored_url or opened.index_url, None if stored is None else stored.index_url
    if stored is None or now is None:
        is_same = False
    elif opened.lease is LeasePlace.INDEX:
        is_same = stored.lease == opened.lease and now == before
    else:
        # Hosts with an index each may go on, whichever of these the settings name; another scheme may be another scope.
        is_same = stored.lease == opened.lease and _scheme(now) == _scheme(before)
    if not is_same:
        raise IndexMismatchError(
            f"the table has been given another index since this process opened it: table={definition.location} "
            f"index={before} lease={opened.lease} now={now} lease now={stored and stored.lease}; open the table again, "
            "and write again"
        )


def _scheme(url: str) -> str:
    return url.partition(":")[0]
