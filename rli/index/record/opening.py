"""Making, opening and removing record-level indexes."""

from __future__ import annotations

from collections.abc import Sequence

from rli.errors import IndexExistsError, IndexMismatchError, IndexNotFoundError, RliError, SettingsError
from rli.index.record.entries.identity import give_identity
from rli.index.record.index_alone import IndexAlone
from rli.index.record.record_index import RecordIndex
from rli.index.record.stored_index import SETTINGS, StoredIndex
from rli.index.record.table_record_index import TableRecordIndex
from rli.index_urls import IndexUrl
from rli.model import KeyMode, Scope
from rli.settings import IndexSettings
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.urls import without_password


def open_index(url: str) -> RecordIndex:
    """Open the index at a store URL.

    Raises:
        IndexNotFoundError: there is none.
        IndexMismatchError: it was made with other options than the URL has.
        SettingsError: the URL is not understood, or the index was made by a newer version of rli.
        StoreUnavailableError: the store does not answer.
    """
    index = open_as_it_is(url)
    try:
        require_options(index, url)
    except IndexMismatchError:
        index.close()
        raise
    return index


def open_as_it_is(url: str) -> StoredIndex:
    """Open the index in a URL's store, whatever its scope; raises as ``open_index``."""
    store = open_store(IndexUrl.parse(url).store)
    try:
        content = store.read_control(SETTINGS)
        if content is None:
            raise IndexNotFoundError(
                f"there is no index here: url={without_password(url)}", remedy="create or bootstrap it"
            )
        return _index_in(store, IndexSettings.from_json(content))
    except RliError:
        store.close()
        raise


def create_index(
    url: str,
    *,
    shards: int | None = None,
    key_mode: KeyMode | str = KeyMode.EXACT,
    key_fields: Sequence[str] = (),
    table_id: str | None = None,
) -> RecordIndex:
    """Create an index at a store URL.

    Args:
        url: names the store, such as ``lmdb:///data/idx/trips``. With ``?scope=partition``, record keys are unique in
            their partition only; an index that is used on its own is global.
        shards: how many shards to cut the key space into; by default what suits the store.
        key_mode: "exact" (lossless) or "digest" (128-bit hashes stand for the keys, under a random key of the index).
        key_fields: record-key columns of the table, for a check when it is opened again.
        table_id: identity of the table that the index follows; None for an index that is used on its own.

    Example:
        >>> import rli
        >>> index = rli.create_index("memory:example")
        >>> index.lookup(["k1"])["file_id"].to_pylist()
        [None]

    Raises:
        IndexExistsError: there is one already.
        SettingsError: an argument is wrong, or the store cannot keep such an index.
        StoreUnavailableError: the store does not answer.
    """
    given = {} if shards is None else {"shard_count": shards}
    named = IndexUrl.parse(url)
    if table_id is None:
        _require_usable_alone(named)
    settings = IndexSettings.new(
        key_mode=key_mode,
        key_fields=tuple(key_fields),
        table_id=table_id,
        scope=named.scope,
        partitions=named.partitions,
        ttl=named.ttl,
        **given,
    )
    store = open_store(named.store, create=True)
    if shards is None:
        settings = settings.model_copy(update={"shard_count": store.preferred_shards})
    try:
        store.require_suitable(settings)
    except SettingsError:
        store.close()
        raise
    if not store.compare_and_set(SETTINGS, None, settings.to_json()):
        store.close()
        raise IndexExistsError(
            f"there is an index already: url={without_password(url)}",
            remedy="open it, drop it (rli index drop URL), or choose another URL",
        )
    give_identity(store)
    index = _index_in(store, settings)
    if table_id is None:
        store.mark_applied(store.applied(), 0)
    return index


def drop_store(url: str) -> None:
    """Remove what a store has at a URL, without asking whether it is an index that can be read.

    Raises:
        IndexNotFoundError: there is nothing.
        StoreUnavailableError: the store does not answer.
    """
    with open_store(IndexUrl.parse(url).store) as store:
        store.drop()


def require_options(index: RecordIndex, url: str) -> None:
    """Refuse an index that was made with other options than its URL has; raises ``IndexMismatchError``."""
    wanted, made = IndexUrl.parse(url), index.settings
    for name, there in (("scope", made.scope), ("partitions", made.partitions), ("ttl", made.ttl)):
        if getattr(wanted, name) != there:
            raise IndexMismatchError(
                f"the index was made with another {name}: url={wanted} {name}={there}",
                remedy=f"name it {index.url}, or bootstrap it again with the {name} that you want",
            )


def require_settings(index: RecordIndex, expected: IndexSettings) -> None:
    """Refuse an index that was made with other settings than expected.

    Raises:
        IndexMismatchError: naming each setting that differs.
    """
    differing = [
        f"{name}={getattr(index.settings, name)!r} (expected {getattr(expected, name)!r})"
        for name in IndexSettings.model_fields
        if getattr(index.settings, name) != getattr(expected, name)
    ]
    if differing:
        raise IndexMismatchError(
            f"the index was made with other settings: url={index.url} {' '.join(differing)}",
            remedy="name the right index, or drop it and bootstrap it again",
        )


def _index_in(store: Store, settings: IndexSettings) -> StoredIndex:
    return IndexAlone(store, settings) if settings.table_id is None else TableRecordIndex(store, settings)


def _require_usable_alone(named: IndexUrl) -> None:
    """Raise ``SettingsError`` if a URL asks for what only the index of a table can do."""
    if named.ttl is not None:
        raise SettingsError(
            f"the keys of an index that is used on its own do not expire: url={named}",
            remedy="leave ttl out, and delete old keys",
        )
    if named.scope is not Scope.GLOBAL:
        raise SettingsError(
            f"an index that is used on its own is global: url={named} scope={named.scope}",
            remedy="leave scope out, and make the partition a part of each record key",
        )
