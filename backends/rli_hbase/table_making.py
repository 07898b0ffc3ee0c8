"""Making tables with the properties that entries need, and refusing tables without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rli.errors import SettingsError
from rli_hbase.client import Client
from rli_hbase.errors import is_refused_table
from rli_hbase.thrift import AlreadyExists, ColumnDescriptor, HbaseError

FOR_EVER: Final = 0x7FFF_FFFF
"""Cells do not expire: entries do not age, and the timestamps of some are commit sequences, as times decades ago."""

# The quickest first; which of them a cluster has depends on its libraries. GZ is part of Java.
_COMPRESSIONS: Final = ("SNAPPY", "LZ4", "GZ")


def create_table(table: bytes, families: Sequence[bytes], versions: int, thrift: Any) -> None:
    """Make a table, unless there is one of this name, with the best compression that the cluster has."""
    for compression in _COMPRESSIONS:
        try:
            thrift.createTable(table, [_family(name, versions, compression) for name in families])
        except AlreadyExists:
            return
        except HbaseError as error:
            if compression == _COMPRESSIONS[-1] or not is_refused_table(error):
                raise
        else:
            return


def require_lasting(client: Client, families: Sequence[bytes], thrift: Any) -> None:
    """Raise ``SettingsError`` if cells of these column families of the client's table expire."""
    described = thrift.getColumnDescriptors(client.table)
    for name in families:
        family = described.get(name + b":")
        if family is not None and family.timeToLive != FOR_EVER:
            raise SettingsError(
                f"the table expires entries of the index: store={client.settings.location} family={name.decode()} "
                f"ttl={family.timeToLive}",
                remedy="expired keys would be inserted twice: in the HBase shell: "
                f"alter '{client.settings.table}', {{NAME => '{name.decode()}', TTL => 'FOREVER'}}; then bootstrap the "
                "index again if it had entries",
            )


def _family(name: bytes, versions: int, compression: str) -> ColumnDescriptor:
    # Thrift's own defaults are no bloom filter and no block cache, which makes gets many times slower.
    return ColumnDescriptor(
        name=name + b":",
        maxVersions=versions,
        compression=compression,
        bloomFilterType="ROW",
        blockCacheEnabled=True,
        timeToLive=FOR_EVER,
    )
