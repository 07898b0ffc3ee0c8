"""Tables: what readers, writers and checks do with a table and its index together."""

from rli.table.catalog import create_table, open_table
from rli.table.dropping import DroppedTable, drop_table
from rli.table.index_of_table import IndexOfTable, SyncResult
from rli.table.info import IndexInfo, TableInfo
from rli.table.maintenance import TableMaintenance
from rli.table.metadata_of_table import MetadataOfTable
from rli.table.options import TableOptions
from rli.table.scan import Scan
from rli.table.table import Table
from rli.table.versions import TableVersions
from rli.write.operations.deduplicate import Deduplicated
from rli.write.operations.repeated_records import RepeatedKey

__all__ = [
    "Deduplicated",
    "DroppedTable",
    "IndexInfo",
    "IndexOfTable",
    "MetadataOfTable",
    "RepeatedKey",
    "Scan",
    "SyncResult",
    "Table",
    "TableInfo",
    "TableMaintenance",
    "TableOptions",
    "TableVersions",
    "create_table",
    "drop_table",
    "open_table",
]
