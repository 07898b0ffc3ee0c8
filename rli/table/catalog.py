"""Creating and opening tables."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence

import pyarrow as pa

from rli.errors import SchemaError, SettingsError
from rli.hudi.avro_schema import to_avro
from rli.hudi.properties import new_table_properties, save_properties
from rli.hudi.schema import RESERVED_PREFIX, written_schema
from rli.index.contract import IndexOptions
from rli.index.registry import default_lease, index_kind
from rli.model import Durability, KeyMode, LeasePlace, OnPartitionChange
from rli.settings import DEFAULT_LEASE_SECONDS, DEFAULT_WRITE_ATTEMPTS, MEBIBYTE, Maintenance
from rli.storage import Storage
from rli.table.creation import claimed
from rli.table.table import Table
from rli.view import paths
from rli.view.definition import TableDefinition, load_definition
from rli.view.index_location import default_index_url, to_stored
from rli.view.registration import new_table_settings, with_index_at


def create_table(  # noqa: PLR0913  (each is a choice of its own, all but the first two have a default)
    path: str | os.PathLike[str],
    *,
    record_key: Sequence[str] | str,
    partition_by: Sequence[str] | str = (),
    ordering: str | None = None,
    index: str | None = None,
    name: str | None = None,
    schema: pa.Schema | None = None,
    shards: int | None = None,
    key_mode: KeyMode | str = KeyMode.EXACT,
    on_partition_change: OnPartitionChange | str = OnPartitionChange.MOVE,
    hive_style: bool = False,
    url_encode_partitions: bool = False,
    target_file_size: int = 120 * MEBIBYTE,
    small_file_size: int | None = None,
    compression: str = "zstd",
    write_attempts: int = DEFAULT_WRITE_ATTEMPTS,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    lease: LeasePlace | str | None = None,
    durability: Durability | str = Durability.DISK,
    storage_options: Mapping[str, str] | None = None,
    maintenance: Maintenance | bool = True,
) -> Table:
    """Create an empty table, in Hudi's copy-on-write layout of version 6, with its index.

    Args:
        path: a folder, local or a URI; it is made if needed.
        record_key: the columns that identify a record in the whole table.
        partition_by: the columns that say in which partition a record is; none for a table without partitions.
        ordering: the column whose greater value wins between two versions of a record; None if the later write wins.
        index: store URL of the index; by default an LMDB index in the table's own folder, for local tables.
        name: of the table; by default that of the folder.
        schema: of the records; by default it is taken from the first records written.
        shards: see ``create_index``.
        key_mode: see ``create_index``.
        on_partition_change: what an upsert does when a known key comes with another partition value.
        hive_style: name partition folders ``column=value``.
        url_encode_partitions: percent-encode special characters in partition values.
        target_file_size: bytes up to which new records fill a base file.
        small_file_size: base files below it (bytes) are filled first; by default five sixths of the target.
        compression: Parquet codec: "zstd", "snappy", "gzip" or "none".
        write_attempts: how often an upsert or a delete is tried where other writers get there first.
        lease_seconds: for how long a writer that shows no life, because its host is gone or it is paused, keeps what
            it holds: so long others may have to wait for it.
        lease: where writers agree on which of them commits; by default "index", or "table" for an index without a store.
            "index": in the index's store, which all of them share.
            "table": in the table's folder, in an object store or on a file system that several hosts have mounted;
            each host then has an index of its own, at ``index`` or where it says when it opens the table.
        durability: what an acknowledged commit survives. "disk": a power cut. "os": the death of every process, but no
            power cut, after which the last commits may be gone.
        storage_options: of an object store, credentials among them: see docs/object-stores.md. They are not stored.
        maintenance: what writers do for the table after their commits: clean, archive, cluster small files. False:
            nothing.

    Example:
        >>> import pyarrow as pa, rli
        >>> table = rli.create_table("trips", record_key="id", partition_by="city", ordering="ts")
        >>> batch = pa.table({"id": ["a", "b"], "city": ["Rome", "Oslo"], "ts": [1, 1]})
        >>> table.upsert(batch).inserted
        2

    Raises:
        TableExistsError, IndexExistsError: there is one already; nothing was changed.
        SettingsError, SchemaError: an argument is wrong; nothing was changed.
        StoreUnavailableError: the index's store does not answer.
    """
    storage = Storage(os.fspath(path), storage_options or {})
    keys, partitions = _columns(record_key, "record_key"), _columns(partition_by, "partition_by")
    _require_columns(keys, partitions, ordering, schema)
    table_name = name or posixpath.basename(storage.root.rstrip("/"))
    index_url = index if index is not None else default_index_url(storage)
    kind, options = index_kind(index_url), IndexOptions(shards, key_mode)
    kind.require_valid(index_url, options)
    settings = new_table_settings(
        index_url=index_url,
        on_partition_change=on_partition_change,
        target_file_size=target_file_size,
        small_file_size=target_file_size * 5 // 6 if small_file_size is None else small_file_size,
        compression=compression,
        write_attempts=write_attempts,
        lease_seconds=lease_seconds,
        lease=default_lease(index_url) if lease is None else lease,
        durability=durability,
        maintenance=_maintenance(chosen=maintenance),
    )
    if settings.lease is LeasePlace.INDEX and not kind.has_store:
        raise SettingsError(
            f"the index has no store in which writers could agree: index={index_url} lease={lease}; leave lease out, or "
            'give lease="table" or the URL of a store'
        )
    if settings.lease is LeasePlace.TABLE:
        _require_index_of_host(storage, index)
    properties = new_table_properties(
        table_name,
        record_key_fields=keys,
        partition_fields=partitions,
        ordering_field=ordering,
        hive_style=hive_style,
        url_encode=url_encode_partitions,
        create_schema=None if schema is None else to_avro(written_schema(schema), table_name),
    )
    definition = TableDefinition(storage, properties, settings, index_url)
    with claimed(storage, settings, index_url):
        kind.create(definition, options).close()
        storage.write_bytes(paths.SETTINGS, to_stored(storage, settings))
        storage.sync(folders=[posixpath.dirname(paths.SETTINGS)])
        # The properties come last: with them the folder is a table.
        save_properties(storage, properties)
        storage.sync_folders_above()
    return Table(definition)


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


def _require_index_of_host(storage: Storage, index: str | None) -> None:
    if index is None:
        raise SettingsError(
            f"each host needs its own index: path={storage.location} lease={LeasePlace.TABLE}; give index= on a "
            "disk of this host, for example lmdb:///var/lib/rli/trips, and the other hosts bootstrap theirs"
        )


def _maintenance(*, chosen: Maintenance | bool) -> Maintenance:
    if isinstance(chosen, Maintenance):
        return chosen
    return Maintenance() if chosen else Maintenance.off()


def _columns(names: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    columns = (names,) if isinstance(names, str) else tuple(names)
    if len(set(columns)) != len(columns) or any(not column or "," in column for column in columns):
        raise SettingsError(
            f"column names are empty, repeated or hold a comma: {argument}={list(columns)}; name each column once"
        )
    return columns


def _require_columns(
    keys: tuple[str, ...], partitions: tuple[str, ...], ordering: str | None, schema: pa.Schema | None
) -> None:
    if not keys:
        raise SettingsError("a table needs at least one record-key column: record_key=[]; name one")
    named = [*keys, *partitions, *([ordering] if ordering is not None else [])]
    reserved = [column for column in named if column.startswith((RESERVED_PREFIX, "_hoodie_"))]
    if reserved:
        raise SettingsError(f"these column names are reserved: columns={reserved}; rename the columns")
    missing = [column for column in named if schema is not None and column not in schema.names]
    if missing:
        raise SchemaError(f"the schema lacks columns: columns={missing} found={schema and schema.names}; add them")
