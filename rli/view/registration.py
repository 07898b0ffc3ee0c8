"""Taking a table up: what rli keeps with a table, and where its index is."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import Any
from uuid import uuid4

from rli.errors import IndexMismatchError, RliError
from rli.index_urls import IndexUrl
from rli.model import LeasePlace, Scope
from rli.settings import DEFAULT_TOMBSTONES, Maintenance, TableSettings
from rli.store.registry import open_store
from rli.urls import StoredUrl, without_secrets
from rli.view import paths
from rli.view.definition import TableDefinition, durable_as, load_settings
from rli.view.index_binding import IndexBinding
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
    if definition.settings is not None:
        found = given(found, lease)
    if found.settings != definition.settings or definition.callers_in_place_of or stores_password(definition):
        save_settings(found)
    return found.adopted()


def save_settings(definition: TableDefinition) -> None:
    """Store the settings with the table; see ``stored_form``."""
    storage = definition.storage
    storage.write_bytes(paths.SETTINGS, stored_form(definition))
    storage.flush(folders=[posixpath.dirname(paths.SETTINGS)])


def stored_form(definition: TableDefinition) -> bytes:
    """The settings as they are stored with the table, without passwords.

    A password that an earlier version stored is kept if the index cannot be opened without it.
    """
    settings = definition.require_settings()
    if _needs_stored_password(definition):
        return settings.model_copy(update={"index_url": str(definition.index_url)}).to_json()
    return to_stored(definition.storage, settings)


def stores_password(definition: TableDefinition) -> bool:
    """Whether a password is in the settings that are stored with the table."""
    return definition.binding is not None and definition.binding.stores_password


def _needs_stored_password(definition: TableDefinition) -> bool:
    if not stores_password(definition):
        return False
    try:
        open_store(IndexUrl.parse(StoredUrl(definition.require_settings().index_url)).store).close()
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
    stored, in_place_of = definition.settings, definition.callers_in_place_of
    if stored is None:
        # The engine that made the table cleans and archives it as it was told to.
        settings = new_table_settings(
            index_url=index_url, lease=lease, maintenance=Maintenance.off(), tombstones=DEFAULT_TOMBSTONES
        )
    else:
        settings = stored.model_copy(update={"index_url": without_secrets(index_url)})
        in_place_of = in_place_of or stored.index_url
    return replace(definition, settings=settings, binding=IndexBinding(index_url, in_place_of))


def given(definition: TableDefinition, lease: LeasePlace) -> TableDefinition:
    """A table that is given the index of a definition: its next generation, if it is another one than the stored index.

    Args:
        definition: names the index.
        lease: where writers agree with such an index. A table that agrees in the store of its index goes over to it.
    """
    settings, changes = definition.require_settings(), dict[str, object]()
    if settings.lease is LeasePlace.INDEX:
        changes["lease"] = lease
    if definition.callers_in_place_of not in {None, settings.index_url}:
        changes["index_generation"] = settings.index_generation + 1
    return definition.with_settings(settings.model_copy(update=changes))


def require_same_lease(definition: TableDefinition) -> None:
    """Pass a table whose writers still agree where they did when this process opened it (docs/protocol.md, P3).

    Raises:
        IndexMismatchError: the table has been given another index since, whose writers agree elsewhere, whose record
            keys are unique in another scope, or which has other options. Or this process has an index of its own whose
            scope or time to live is not that of the table's.
        CorruptTableError: the settings are damaged.
    """
    opened, (stored, _) = definition.require_settings(), load_settings(definition.storage)
    before, now = definition.callers_in_place_of or opened.index_url, None if stored is None else stored.index_url
    if stored is None or now is None:
        is_same = False
    elif opened.lease is LeasePlace.INDEX:
        is_same = _index_and_lease(stored) == _index_and_lease(opened, before)
    else:
        # Hosts with an index each may go on, whichever of these the settings name; another kind may have another scope.
        is_same = stored.lease == opened.lease and _kind(now) == _kind(before)
    if not is_same:
        raise IndexMismatchError(
            f"the table has been given another index since this process opened it: table={definition.location} "
            f"index={before} lease={opened.lease} now={now} lease now={stored and stored.lease}",
            remedy="open the table again, and try again",
        )
    if definition.callers_in_place_of is not None and now is not None and not _agree(opened.index_url, now):
        raise IndexMismatchError(
            "this process has opened the table with an index of another scope or time to live: "
            f"table={definition.location} index={opened.index_url} index of the table={now}",
            remedy="give it the options of the table's index",
        )


def as_stored_now(definition: TableDefinition) -> TableDefinition:
    """The definition with the table's properties as they are now, and with the index that the table has now.

    A process that opened the table with another index than the stored one keeps that index.

    Raises:
        CorruptTableError: properties or settings are damaged.
    """
    current = definition.reloaded()
    changed = _changed_settings(definition)
    if changed is None:
        return current
    settings, url = changed
    return replace(current, storage=durable_as(current.storage, settings), settings=settings, binding=IndexBinding(url))


def has_other_index(definition: TableDefinition) -> bool:
    """Whether the table has been given another index, or another lease, since the definition was read.

    Raises:
        CorruptTableError: the settings are damaged.
    """
    return _changed_settings(definition) is not None


def seems_to_have_other_index(definition: TableDefinition) -> bool:
    """See ``has_other_index``; False if that cannot be told now. For reports of an error, which has the same cause."""
    try:
        return has_other_index(definition)
    except (OSError, RliError):
        return False


def has_index_of(definition: TableDefinition, other: TableDefinition) -> bool:
    """Whether two definitions of a table name the same index and lease."""
    return _index_and_lease(definition.settings) == _index_and_lease(other.settings)


def _changed_settings(definition: TableDefinition) -> tuple[TableSettings, StoredUrl] | None:
    """The stored settings with the URL of the index, if these name another index or lease than the definition."""
    if definition.callers_in_place_of is not None:
        return None
    stored, url = load_settings(definition.storage)
    if stored is None or url is None or _index_and_lease(stored) == _index_and_lease(definition.settings):
        return None
    return stored, url


def _index_and_lease(settings: TableSettings | None, index_url: str | None = None) -> tuple[str, int, str] | None:
    if settings is None:
        return None
    return index_url or settings.index_url, settings.index_generation, str(settings.lease)


def _agree(url: str, other: str) -> bool:
    """Whether two indexes in stores know the same keys for the same time; of other kinds the URL does not tell."""
    both = [IndexUrl.parse(one) for one in (url, other)]
    if any("://" not in one.store and not one.store.startswith("memory:") for one in both):
        return True
    return (both[0].scope, both[0].ttl) == (both[1].scope, both[1].ttl)


def _kind(url: str) -> tuple[str, Scope, int | None]:
    """What writers must agree about: scheme, scope and time to live; of a URL of options alone, without a place, all of it.

    Which partitions an index knows is up to each host.
    """
    named = IndexUrl.parse(url)
    scheme, _, rest = named.store.partition(":")
    return url if rest.startswith("?") else scheme, named.scope, named.ttl
