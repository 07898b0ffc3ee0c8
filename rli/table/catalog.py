"""Creating and opening tables."""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, Unpack

import pyarrow as pa

from rli.coordination.lease_stores import lease_store
from rli.errors import SchemaError, SettingsError, TableExistsError, TableNotFoundError
from rli.hudi.avro_schema import to_avro
from rli.hudi.column_names import require_distinct, require_name
from rli.hudi.properties import new_table_properties, save_properties
from rli.hudi.schema import RESERVED_PREFIX, written_schema
from rli.index.kinds import IndexOptions, created, require_valid
from rli.index.registry import default_lease, index_kind
from rli.index_urls import IndexUrl
from rli.model import KeyMode, LeasePlace
from rli.storage import Storage
from rli.table.agreement import Wanted
from rli.table.creation import claimed
from rli.table.options import (
    TableOptions,
    new_settings,
    properties_of_lock,
    require_known,
    require_log_inserts,
    wanted_partitions,
    wanted_type,
)
from rli.table.table import Table
from rli.urls import has_secrets, without_secrets
from rli.view import paths
from rli.view.definition import TableDefinition, durable_as, load_definition
from rli.view.index_binding import IndexBinding
from rli.view.index_location import default_index_url, to_stored
from rli.view.registration import new_table_settings, with_index_at
from rli.write.rows.keyed_records import require_ordering

_IF_EXISTS: Final = ("fail", "open")
_CREATION_SECONDS: Final = 30.0
"""For how long one process waits for another one that creates the table."""

_PAUSE_SECONDS: Final = 0.05


def create_table(  # noqa: PLR0913  (what every table is asked for; the rest are options)
    path: str | os.PathLike[str],
    *,
    record_key: Sequence[str] | str,
    partition_by: Sequence[str] | str = (),
    ordering: str | None = None,
    index: str | None = None,
    name: str | None = None,
    schema: pa.Schema | None = None,
    if_exists: Literal["fail", "open"] = "fail",
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[TableOptions],
) -> Table:
    """Create an empty table, in Hudi's layout of version 6, with its index.

    Args:
        path: a folder, local or a URI; it is made if needed.
        record_key: the columns that identify a record in the whole table.
        partition_by: the columns that say in which partition a record is; none for a table without partitions.
        ordering: the column whose greater value wins between two versions of a record; None if the later write wins.
        index: store URL of the index; by default an LMDB index in the table's own folder, for local tables.
        name: of the table; by default that of the folder.
        schema: of the records; by default it is taken from the first records written.
        if_exists: "fail", or "open": a table that exists is opened, if it agrees with all arguments that are given.
            Several processes may call this at once.
        storage_options: of an object store, credentials among them: see docs/object-stores.md. They are not stored.
        **options: ``TableOptions`` has each of them with its default: ``shards``, ``key_mode``,
            ``on_partition_change``, ``hive_style``, ``url_encode_partitions``, ``table_type``, ``log_format``, ``log_inserts``,
            ``target_file_size``, ``small_file_size``, ``compression``, ``write_attempts``, ``lease_seconds``, ``lease``, ``lock``,
            ``durability``, ``maintenance``, ``tombstones``, ``metadata``.

    Example:
        >>> import pyarrow as pa, rli
        >>> table = rli.create_table("trips", record_key="id", partition_by="city", ordering="ts")
        >>> batch = pa.table({"id": ["a", "b"], "city": ["Rome", "Oslo"], "ts": [1, 1]})
        >>> table.upsert(batch).inserted
        2

    Raises:
        TableExistsError, IndexExistsError: there is one already; nothing was changed.
        SettingsError, SchemaError: an argument is wrong, or a table that exists differs from it; nothing was changed.
        StoreUnavailableError: the index's store does not answer.
    """
    require_known(options)
    if if_exists not in _IF_EXISTS:
        raise SettingsError(f"no such choice: if_exists={if_exists!r}", remedy=f"choose one of {list(_IF_EXISTS)}")
    storage = Storage(os.fspath(path), storage_options or {})
    keys, partitions = _columns(record_key, "record_key"), _columns(partition_by, "partition_by")
    _require_columns(keys, partitions, ordering, schema)
    wanted = Wanted(keys, partitions, ordering, index, name, schema, options)
    if if_exists == "fail":
        return _create(storage, wanted)
    latest = time.monotonic() + _CREATION_SECONDS
    while True:
        with suppress(TableNotFoundError):
            definition = load_definition(storage)
            # As the table is stored, not as the caller's index would have it.
            wanted.require(Table(definition))
            # It is the stored index, of which the caller may know the password.
            if index is None or not has_secrets(index):
                return Table(definition)
            return Table(with_index_at(definition, index, default_lease(index)))
        try:
            return _create(storage, wanted)
        except TableExistsError:
            # Another process has created it meanwhile, or is about to.
            if time.monotonic() > latest:
                raise
            time.sleep(_PAUSE_SECONDS)


def _create(storage: Storage, wanted: Wanted) -> Table:
    options = wanted.options
    table_name = wanted.name or posixpath.basename(storage.root.rstrip("/"))
    index_url = wanted.index if wanted.index is not None else default_index_url(storage)
    of_index = IndexOptions(options.get("shards"), options.get("key_mode", KeyMode.EXACT))
    kind = index_kind(index_url)
    require_valid(kind, index_url, of_index)
    settings = new_table_settings(index_url=index_url, **{"lease": default_lease(index_url), **new_settings(options)})
    if settings.lease is LeasePlace.INDEX and not kind.has_store:
        raise SettingsError(
            f"the index has no store in which writers could agree: index={index_url} lease={settings.lease}",
            remedy=('leave lease out, or give lease="table" or the URL of a store'),
        )
    if not isinstance(settings.lease, LeasePlace):
        # A URL that cannot be used is refused before the table keeps it.
        _require_common_lease(settings.lease, index_url)
        lease_store(settings.lease)
    if settings.lease is LeasePlace.TABLE and kind.has_store:
        _require_index_of_host(storage, wanted.index)
    properties = new_table_properties(
        table_name,
        record_key_fields=wanted.record_key,
        partition_fields=wanted.partition_by,
        ordering_field=wanted.ordering,
        hive_style=options.get("hive_style", False),
        url_encode=options.get("url_encode_partitions", False),
        table_type=wanted_type(options),
        create_schema=None if wanted.schema is None else to_avro(written_schema(wanted.schema), table_name),
    ).changed(properties_of_lock(options, storage))
    partitions = wanted_partitions(options, index_url)
    if partitions is not None:
        partitions.require_supported(properties)
    if settings.log_inserts:
        kinds = () if partitions is None else partitions.kinds(properties.version)
        require_log_inserts(properties, index_url, kinds)
    definition = TableDefinition(storage, properties, settings, IndexBinding(index_url))
    if wanted.schema is not None:
        _require_usable_types(definition, written_schema(wanted.schema), wanted.ordering)
    with claimed(storage, settings, index_url):
        created(kind, definition, of_index).close()
        storage.write_bytes(paths.SETTINGS, to_stored(storage, settings))
        storage.flush(folders=[posixpath.dirname(paths.SETTINGS)])
        # The properties come last: with them the folder is a table.
        save_properties(storage, properties)
        storage.flush_folders_above()
    table = Table(replace(definition, storage=durable_as(storage, settings)))
    if partitions is not None:
        # Of a whole table: it stays if this fails, and gets them by another call.
        table.metadata.enable([*partitions.kinds(properties.version)])
    return table


def open_table(
    path: str | os.PathLike[str], *, index: str | None = None, storage_options: Mapping[str, str] | None = None
) -> Table:
    """Open a table; all that is needed is stored with it.

    Args:
        path: its folder, local or a URI. Tables that Hudi made are opened as well; what needs their index asks for
            a bootstrap first.
        index: store URL of the index, in place of the stored one.
        storage_options: of an object store, as for ``create_table``.

    Example:
        >>> import rli
        >>> with rli.open_table("trips") as table:
        ...     table.read(columns=["id"]).num_rows
        4

    Raises:
        TableNotFoundError: there is none.
        UnsupportedTableError: there is one that rli cannot read; says why.
        CorruptTableError: its properties are damaged.
    """
    definition = load_definition(Storage(os.fspath(path), storage_options or {}))
    return Table(definition if index is None else with_index_at(definition, index, default_lease(index)))


def _require_usable_types(table: TableDefinition, schema: pa.Schema, ordering: str | None) -> None:
    """Refuse columns of keys, partitions or ordering values whose type no write would take; raises ``SchemaError``."""
    no_records = schema.empty_table()
    table.key_generator.record_keys(no_records)
    table.key_generator.partition_paths(no_records)
    if ordering is not None:
        require_ordering(no_records, ordering)


def _require_common_lease(lease: str, index_url: str) -> None:
    if not lease.partition(":")[2].startswith("/"):
        raise SettingsError(
            f"this URL does not name the same store in every process: lease={lease}",
            remedy="give an absolute one, such as lmdb:///path",
        )
    if lease == without_secrets(IndexUrl.parse(index_url).store):
        raise SettingsError(
            f"a bootstrap of the index would drop the lease with it: lease={lease} index={without_secrets(index_url)}",
            remedy="leave lease out, or give another URL",
        )


def _require_index_of_host(storage: Storage, index: str | None) -> None:
    if index is None:
        raise SettingsError(
            f"each host needs its own index: path={storage.location} lease={LeasePlace.TABLE}",
            remedy=(
                "give index=URL on a disk of this host, for example lmdb:///var/lib/rli/trips, and the other hosts "
                "bootstrap theirs"
            ),
        )


def _columns(names: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    columns = (names,) if isinstance(names, str) else tuple(names)
    if len(set(columns)) != len(columns) or any(not column or "," in column for column in columns):
        raise SettingsError(
            f"column names are empty, repeated or hold a comma: {argument}={list(columns)}",
            remedy="name each column once",
        )
    return columns


def _require_columns(
    keys: tuple[str, ...], partitions: tuple[str, ...], ordering: str | None, schema: pa.Schema | None
) -> None:
    if not keys:
        raise SettingsError("a table needs at least one record-key column: record_key=[]", remedy="name one")
    named = [*keys, *partitions, *([ordering] if ordering is not None else [])]
    reserved = [column for column in named if column.startswith((RESERVED_PREFIX, "_hoodie_"))]
    if reserved:
        raise SettingsError(f"these column names are reserved: columns={reserved}", remedy="rename the columns")
    for column in named:
        require_name(column, column)
    require_distinct(dict.fromkeys(named))
    missing = [column for column in named if schema is not None and column not in schema.names]
    if missing:
        raise SchemaError(
            f"the schema lacks columns: columns={missing} found={schema and schema.names}", remedy="add them"
        )
