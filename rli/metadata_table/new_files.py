"""Files of one birth or compaction, written where nobody reads them until they are brought into the metadata table."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rli.hudi.file_names import HFILE, BaseFileName, token_begin
from rli.hudi.hfile.writer import write_hfile
from rli.hudi.metadata.cells import in_form
from rli.hudi.metadata.schema import schema_text_of
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.hudi.timeline.instant import InstantState
from rli.hudi.timeline.layouts import TimelineLayout
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class NewFiles:
    """New files of the metadata table.

    Attributes:
        table: the definition of the table.
        folder: where the files are written: it stands for the folder of the metadata table.
        instant: of the change that brings them.
        began: instant time at which the attempt began; no other attempt has it.
    """

    table: TableDefinition
    folder: str
    instant: str
    began: str

    @property
    def schema(self) -> str:
        """Avro schema of the values."""
        return schema_text_of(self.table.properties.version)

    @property
    def token(self) -> str:
        """In the names of the files; no other attempt has it."""
        return f"{token_begin(self.began)}0"

    def write(self, path: str, content: bytes) -> str:
        """Write a file; returns its path in the metadata table, as it was given."""
        self.table.storage.unflushed().write_bytes(self._made(path), content)
        return path

    def write_pending(self, layout: TimelineLayout, action: str, plan: bytes = b"") -> list[str]:
        """Write the pending states of the instant; returns their paths in the metadata table.

        Args:
            layout: of the timeline of the metadata table, relative to the metadata table.
            action: of the instant.
            plan: content of the requested state.
        """
        states = ((InstantState.REQUESTED, plan), (InstantState.INFLIGHT, b""))
        return [self.write(layout.pending_path(self.instant, action, state), content) for state, content in states]

    def write_base(
        self, partition: str, file_id: str, cells: Iterable[pa.RecordBatch], prior: str | None = None
    ) -> WriteStat:
        """Write the base file of a file group.

        Args:
            partition: of the metadata table.
            file_id: of the file group.
            cells: batches of ``CELLS``, in the order of their keys.
            prior: instant of the slice that it replaces; None if the file group is new.
        """
        path = posixpath.join(partition, str(BaseFileName(file_id, self.token, self.instant, HFILE)))
        counts: list[int] = []
        storage, schema = self.table.storage, self.schema
        with storage.filesystem.open_output_stream(storage.full_path(self._made(path))) as sink:
            written = (in_form(batch, schema) for batch in _counted(cells, counts))
            write_hfile(sink, written, schema)
            size = sink.tell()
        inserts = sum(counts) if prior is None else 0
        return WriteStat(file_id, path, partition, prior, sum(counts), inserts, 0, 0, size, size)

    def _made(self, path: str) -> str:
        """Make the folder that a file of the metadata table waits in; returns the file's own path there."""
        target = posixpath.join(self.folder, path)
        self.table.storage.make_folder(posixpath.dirname(target))
        return target


def _counted(batches: Iterable[pa.RecordBatch], counts: list[int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        counts.append(batch.num_rows)
        yield batch
