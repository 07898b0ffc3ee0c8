"""What a change of the table means in one partition of its metadata table: cells, in the order in which they count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.record_codec import encode_record
from rli.hudi.metadata.records import MetadataRecord


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """New and removed records of one partition of the metadata table.

    Attributes:
        partition: of the metadata table.
        cells: batches of ``CELLS``, in which an empty value removes a record; of a key, the last cell counts.
        data_partition: partition path of the table, for a partitioned record index; None otherwise.
    """

    partition: str
    cells: Sequence[pa.RecordBatch]
    data_partition: str | None = None

    @classmethod
    def of_records(
        cls, partition: str, records: Mapping[str, MetadataRecord], removed: Iterable[str] = ()
    ) -> PartitionChange:
        """The change that puts some records.

        Args:
            partition: of the metadata table.
            records: by key.
            removed: keys of records that go; one that is also put stays.
        """
        values = dict.fromkeys(removed, b"") | {key: encode_record(record) for key, record in records.items()}
        columns = [pa.array(values, pa.string()).cast(pa.binary()), pa.array(values.values(), pa.binary())]
        return cls(partition, [pa.record_batch(columns, schema=CELLS)])
