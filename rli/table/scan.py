"""A scan as users see it: the records of a table at one moment, read on demand."""

from __future__ import annotations

import pyarrow as pa

from rli.view.explanation import ScanExplanation
from rli.view.scan import SnapshotScan


class Scan:
    """Some columns of a table's records that pass a filter, all of one snapshot; ``Table.scan`` makes it.

    Nothing is read before it is asked for. Each method may be called again, and shows the same state. DuckDB, Polars and
    others read a scan itself, as a stream of Arrow batches.
    """

    def __init__(self, scan: SnapshotScan) -> None:
        self._scan = scan

    @property
    def schema(self) -> pa.Schema:
        """Of the records that are read."""
        return self._scan.schema

    def to_table(self) -> pa.Table:
        """All records.

        Raises:
            SchemaError: a value of a column does not fit its type in the table, or the filter.
            InstantNotFoundError: others have removed a file of this state since: scan again.
            CorruptTableError: a base file or a log file cannot be read.
            UnsupportedTableError: log files hold what rli does not merge.
            TableNotFoundError: the table was dropped since.
        """
        return self._scan.to_table()

    def to_batches(self) -> pa.RecordBatchReader:
        """The records batch by batch, so that only a few batches are in memory. The reader raises as ``to_table``."""
        return self._scan.to_batches()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The records of ``to_batches`` for other libraries; each call gives a new stream."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def files(self) -> list[str]:
        """The base files that may hold such records, in order: paths of a local table, URIs of others.

        Partition paths, the metadata table and column statistics tell which these are. They hold Hudi's meta columns too.

        Raises:
            UnsupportedTableError: log files change the records of one: scan with ``query="read_optimized"``.
        """
        return self._scan.files()

    def explain(self) -> ScanExplanation:
        """How many partitions and files each step leaves out that proves that no record in them passes the filter.

        It opens footers as a read does, and reads no records.

        Example:
            >>> print(table.scan(filters="city = 'Rome'").explain())
            filter: (city == "Rome")
            partitions: 1 of 2 read; left out by partition path 1
            files: 1 of 2 read; left out by partition path 1

        Raises:
            InstantNotFoundError, CorruptTableError, TableNotFoundError: as ``to_table``.
        """
        return self._scan.explain()
