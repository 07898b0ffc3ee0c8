"""The options of a new table: values that all have a default."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypedDict

from rli.coordination.locks.of_properties import require_usable_lock
from rli.durations import parse_duration
from rli.errors import SettingsError
from rli.hudi.lock_settings import NO_LOCK, chosen_lock, lock_properties
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.properties import TableProperties
from rli.index.kinds import InMetadataTable
from rli.index.registry import index_kind, keeps_entries
from rli.model import Durability, KeyMode, LeasePlace, OnPartitionChange, TableType
from rli.services.new_partitions import NewPartitions
from rli.settings import DEFAULT_TOMBSTONES, MEBIBYTE, Maintenance
from rli.storage import Storage
from rli.urls import without_password

_TARGET_FILE_SIZE: Final = 120 * MEBIBYTE
_OFF: Final = "off"

NO_METADATA: Final = "none"
"""In the place of partitions of a metadata table."""


class TableOptions(TypedDict, total=False):
    """Options of ``create_table``, each with a default.

    Attributes:
        shards: see ``create_index``.
        key_mode: see ``create_index``.
        on_partition_change: what an upsert does when a known key comes with another partition value: "move" (default),
            "keep" or "fail".
        hive_style: name partition folders ``column=value``.
        url_encode_partitions: percent-encode special characters in partition values.
        table_type: "copy_on_write" (default): a write rewrites the base files that it changes. "merge_on_read": a write appends
            updates and deletes to log files. See docs/table-types.md.
        log_format: of a merge-on-read table, the format of records in log files: "parquet" (default) or "avro".
        log_inserts: whether new records of a merge-on-read table may go to log files of small file groups, whose base files are
            rewritten otherwise. Needs an index that keeps an entry for each key. False (default): they go to base files. See
            docs/table-types.md.
        target_file_size: bytes up to which new records fill a base file; by default 120 MiB.
        small_file_size: base files below it (bytes) are filled first; by default five sixths of the target.
        compression: Parquet codec: "zstd" (default), "snappy", "gzip" or "none".
        write_attempts: how often an upsert or a delete is tried where other writers get there first; by default 8.
        lease_seconds: for how long a writer that shows no life, because its host is gone or it is paused, keeps what
            it holds: so long others may have to wait for it. By default 30.
        lease: where writers agree on which of them commits; by default "index", or "table" for an index without a
            store. "index": in the index's store, which all of them share. The URL of a store: there, apart from the
            index. "table": in the table's folder, in an object store or on a file system that several hosts have
            mounted; each host then has an index of its own, at ``index`` or where it says when it opens the table.
        lock: the lock that commits of rli share with writers of Hudi. "lease" (default): none, so no other engine may write while
            rli does. "filesystem", "storage" (object stores) or "zookeeper://host:port,host:port/base/path?key=NAME": the lock of
            Hudi's ``FileSystemBasedLockProvider``, ``StorageBasedLockProvider`` or ``ZookeeperBasedLockProvider``. See
            docs/how-to/beside-hudi-writers.md.
        durability: what an acknowledged commit survives. "disk" (default): a power cut. "os": the death of every
            process, but no power cut, after which the last commits may be gone.
        maintenance: what writers do for the table after their commits: clean, archive, cluster small files. False:
            nothing.
        tombstones: for how long a deleted key keeps the ordering value of its delete, so that an older record that comes
            later is not inserted again: a number of days, hours, minutes or seconds, such as "7d" (default) or "36h". "off": not
            at all.
        metadata: partitions of Hudi's metadata table that the table gets, see ``MetadataOfTable.enable``; "none" (default). With the
            index ``record-index:`` it gets ``record_index`` in any case.
    """

    shards: int | None
    key_mode: KeyMode | str
    on_partition_change: OnPartitionChange | str
    hive_style: bool
    url_encode_partitions: bool
    table_type: TableType | str
    log_format: str
    log_inserts: bool
    target_file_size: int
    small_file_size: int | None
    compression: str
    write_attempts: int
    lease_seconds: float
    lease: LeasePlace | str | None
    lock: str
    durability: Durability | str
    maintenance: Maintenance | bool
    tombstones: str
    metadata: Sequence[str] | str


RECORD_INDEX_BESIDE_HUDI: Final = "leave log_inserts out; or enable record_index in the metadata table, and give hoodie.index.type=RECORD_INDEX to all writers of Hudi"
"""What to do where new records may not go to log files."""

OF_PROPERTIES: Final = frozenset({"hive_style", "lock", "table_type", "url_encode_partitions"})
"""The options that are kept as Hudi's properties."""

OF_INDEX: Final = frozenset({"shards", "key_mode"})
"""The options of the index."""

_OF_METADATA_TABLE: Final = "metadata"


def require_known(options: Mapping[str, object]) -> None:
    """Raise ``SettingsError`` for a name that is no option, as a misspelt one."""
    unknown = sorted(options.keys() - TableOptions.__annotations__.keys())
    if unknown:
        raise SettingsError(
            f"a table has no such option: option={unknown[0]}",
            remedy=f"known options: {', '.join(TableOptions.__annotations__)}",
        )


def given_settings(options: TableOptions) -> dict[str, Any]:
    """The options that are kept in rli's settings of the table, as these name and type them."""
    given: dict[str, Any] = {
        name: value
        for name, value in options.items()
        if name not in OF_PROPERTIES | OF_INDEX | {_OF_METADATA_TABLE} and value is not None
    }
    if "maintenance" in given:
        given["maintenance"] = _maintenance(chosen=given["maintenance"])
    if "tombstones" in given:
        given["tombstones"] = parse_tombstones(given["tombstones"])
    return given


def properties_of_lock(options: TableOptions, storage: Storage) -> dict[str, str]:
    """Hudi's properties of the wanted lock.

    Args:
        options: of the table.
        storage: of the table.

    Raises:
        SettingsError: there is no such choice, or a library is not installed.
        UnsupportedTableError: Hudi has no such lock for tables on this storage.
    """
    properties = lock_properties(options.get("lock", NO_LOCK))
    require_usable_lock(storage, properties)
    return properties


def wanted_type(options: TableOptions) -> str:
    """Hudi's name of the wanted table type.

    Raises:
        SettingsError: there is no such choice, or a format of log files is given for a table without log files.
    """
    chosen = parse_table_type(options.get("table_type", TableType.COPY_ON_WRITE))
    if chosen == TableType.COPY_ON_WRITE and "log_format" in options:
        raise SettingsError(
            f"a copy-on-write table has no log files: log_format={options['log_format']!r}",
            remedy='leave log_format out, or give table_type="merge_on_read"',
        )
    return chosen.upper()


def require_log_inserts(properties: TableProperties, index_url: str, partitions: Collection[str]) -> None:
    """Pass a table whose new records may go to log files, as far as its definition tells.

    Args:
        properties: of the table.
        index_url: of its index.
        partitions: of its metadata table, also those that it is about to get.

    Raises:
        SettingsError: it has no log files, or an index that finds keys in files; or it shares a lock with writers of Hudi, which
            have no record index there.
    """
    if properties.is_copy_on_write:
        raise SettingsError(
            "a copy-on-write table has no log files: log_inserts=True",
            remedy='leave log_inserts out, or give table_type="merge_on_read"',
        )
    if not keeps_entries(index_url):
        raise SettingsError(
            "new records in log files need an index that keeps an entry for each key: log_inserts=True "
            f"index={without_password(index_url)}",
            remedy="choose an index in a store, such as lmdb:///path, or record-index:; a bucket index appends new records anyway",
        )
    lock = chosen_lock(properties.raw)
    if lock != NO_LOCK and PartitionKind.RECORD_INDEX not in partitions:
        raise SettingsError(
            "the table shares a lock with writers of Hudi, whose SIMPLE and BLOOM indexes add keys of log files a second time: "
            f"log_inserts=True lock={lock}",
            remedy=RECORD_INDEX_BESIDE_HUDI,
        )


def wanted_partitions(options: TableOptions, index_url: str) -> NewPartitions | None:
    """What is wanted of the metadata table; None for nothing.

    Args:
        options: of the table.
        index_url: of its index, which may be a partition there.
    """
    given, kind = options.get("metadata", NO_METADATA), index_kind(index_url)
    wanted = [] if given == NO_METADATA else [given] if isinstance(given, str) else [*given]
    if isinstance(kind, InMetadataTable):
        wanted.append(kind.partition)
    return NewPartitions(wanted, kind.scope_of(index_url)) if wanted or given != NO_METADATA else None


def parse_table_type(chosen: object) -> TableType:
    """The type that a caller names; raises ``SettingsError`` for another name."""
    if chosen not in set(TableType):
        raise SettingsError(f"no such choice: table_type={chosen!r}", remedy=f"choose one of {', '.join(TableType)}")
    return TableType(str(chosen))


def parse_tombstones(text: object) -> int | None:
    """Seconds for which deleted keys keep their ordering values; None: not at all."""
    if text == _OFF:
        return None
    seconds = parse_duration(text) if isinstance(text, str) else None
    if seconds is None:
        raise SettingsError(
            f"not a length of time: tombstones={text!r}",
            remedy=('give a number of days, hours, minutes or seconds, such as "7d", "36h" or "90m", or "off"'),
        )
    return seconds


def new_settings(options: TableOptions) -> dict[str, Any]:
    """The same with the defaults of a new table that depend on other options, or differ from those of older tables."""
    given = given_settings(options)
    target = given.setdefault("target_file_size", _TARGET_FILE_SIZE)
    if isinstance(target, int):
        given.setdefault("small_file_size", target * 5 // 6)
    given.setdefault("maintenance", Maintenance())
    given.setdefault("tombstones", DEFAULT_TOMBSTONES)
    return given


def _maintenance(*, chosen: Maintenance | bool) -> Maintenance:
    if isinstance(chosen, Maintenance):
        return chosen
    return Maintenance() if chosen else Maintenance.off()
