"""The options of ``rli create``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rli.cli.options import parse_size
from rli.model import Durability, OnPartitionChange


class IfExists(StrEnum):
    """What becomes of a creation where there is a table."""

    FAIL = "fail"
    OPEN = "open"


class TypeName(StrEnum):
    """The types of tables as a command line spells them."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"


RecordKeyOption = Annotated[
    list[str],
    typer.Option(
        "--record-key",
        metavar="COLUMN",
        help="Column that identifies a record in the whole table. Several: repeat, or separate by commas.",
        show_default=False,
    ),
]
PartitionByOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition-by",
        metavar="COLUMN",
        help="Partition column. Several: as above. Default: no partitions.",
        show_default=False,
    ),
]
OrderingOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Ordering column: the greater value wins. Default: the later write wins."),
]
NewIndexOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the index is: a store, such as lmdb:///path, or a kind without a store, such as global-simple:. "
        "Default: LMDB inside the table's folder.",
    ),
]
OnPartitionChangeOption = Annotated[
    OnPartitionChange, typer.Option(help="How upserts treat a known key in another partition.")
]
NameOption = Annotated[str | None, typer.Option(help="Name of the table. Default: that of its folder.")]
TableTypeOption = Annotated[
    TypeName,
    typer.Option(
        "--type",
        help="copy-on-write: a write rewrites the base files that it changes. merge-on-read: a write appends updates and "
        "deletes to log files, and readers merge them.",
    ),
]
HiveStyleOption = Annotated[bool, typer.Option("--hive-style", help="Name partition folders column=value.")]
UrlEncodingOption = Annotated[
    bool, typer.Option("--url-encode-partitions", help="Percent-encode special characters in partition folders.")
]
TargetFileSizeOption = Annotated[
    int, typer.Option(parser=parse_size, metavar="SIZE", help="New records fill a file up to this size.")
]
LeaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Where writers agree on who commits. index: in the index's store, which all writers share. table: in the "
        "table's folder. URL: in another store, such as redis://host:6379/0. Default: index, or table for an index "
        "without a store.",
    ),
]
LockOption = Annotated[
    str,
    typer.Option(
        metavar="LOCK",
        help="The lock that commits share with writers of Hudi. lease: none, so no other engine may write while rli does. "
        "filesystem, storage, zookeeper://host:port/base/path?key=NAME: the lock of the Hudi provider of that name.",
    ),
]
DurabilityOption = Annotated[
    Durability,
    typer.Option(
        help="disk: acknowledged commits survive a power cut. os: they survive only the death of processes; for "
        "file systems that are slow to sync."
    ),
]
MaintenanceOption = Annotated[
    bool, typer.Option(help="Writers clean, archive and cluster the table after every few commits.")
]
TombstonesOption = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="For how long a deleted key keeps the ordering value of its delete, such as 7d, 36h or 90m. off: not at all.",
    ),
]
PartitionsOption = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Partitions of Hudi's metadata table, separated by commas: files,column_stats,record_index. none: no metadata "
        "table, unless the index is record-index:.",
    ),
]
SchemaOption = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="File that tells the columns: an Avro schema (.avsc), or the columns of a .parquet or .arrow file. Default: the "
        "columns of the first records.",
        show_default=False,
    ),
]
IfExistsOption = Annotated[
    IfExists,
    typer.Option(help="If the table exists. fail: an error. open: keep it, if it agrees with the other options."),
]
