"""Files of work rows: what the tasks of a stage give those of a later one, each written by one attempt, and never changed.

Spark's cache would be no place for them: its blocks take another two ways between a worker's Python and its JVM, and what is lost
with an executor is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rli.errors import CorruptTableError, RliError
from rli.file_group import work_rows
from rli.storage import Storage
from rli.write.rows.tally import Tally
from rli_spark.rows.lots import BYTES_PER_LOT
from rli_spark.session.batches import map_numbers

_COMPRESSION: Final = "lz4"
"""Of files that go over a network; see ``request_files.COMPRESSION``."""


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of an accepted attempt. Picklable.

    Attributes:
        path: in the table's folder.
        tally: of the keys of its rows.
        size: bytes of its rows in memory.
    """

    path: str
    tally: Tally
    size: int


def write_rows(storage: Storage, folder: str, rows: pa.Table) -> RowFile:
    """Write work rows to a file of its own.

    Args:
        storage: of the table.
        folder: of the attempt to write the request.
        rows: at least one.
    """
    path = f"{folder}/{uuid4().hex}.arrow"
    options = pa.ipc.IpcWriteOptions(compression=None if storage.is_local else _COMPRESSION)
    step = max(1, BYTES_PER_LOT * rows.num_rows // max(rows.nbytes, 1))
    with (
        storage.filesystem.open_output_stream(storage.full_path(path)) as sink,
        pa.ipc.new_stream(sink, rows.schema, options=options) as writer,
    ):
        writer.write_table(rows.combine_chunks(), max_chunksize=step)
    return RowFile(path, Tally.of(rows.column(work_rows.RECORD_KEY)), rows.nbytes)


@dataclass(frozen=True, slots=True)
class RowFiles:
    """Files of work rows, and who reads them.

    Attributes:
        spark: the session.
        storage: of the table.
        files: the files.
    """

    spark: SparkSession
    storage: Storage
    files: tuple[RowFile, ...]

    @property
    def tally(self) -> Tally:
        """Of the keys of all rows."""
        return Tally.total(file.tally for file in self.files)

    def rows(self) -> Iterator[pa.Table]:
        """All rows; raises ``CorruptTableError`` if a file is damaged."""
        return rows_of_files(self.storage, self.files)

    def mapped(
        self, function: Callable[[Iterator[pa.Table]], Iterator[pa.Table]], schema: pa.Schema, tasks: int
    ) -> DataFrame:
        """A frame of what a function makes of the rows.

        Args:
            function: picklable; gives tables of ``schema``.
            schema: of the output.
            tasks: at most so many share the files out.
        """
        storage, files = self.storage, self.files

        def run(numbers: Iterator[int]) -> Iterator[pa.Table]:
            return function(rows_of_files(storage, [files[number] for number in numbers]))

        return map_numbers(self.spark, len(files), run, schema, min(tasks, len(files)))


def rows_of_files(storage: Storage, files: Iterable[RowFile]) -> Iterator[pa.Table]:
    """The rows of some files, about ``BYTES_PER_LOT`` at a time; raises ``CorruptTableError`` if a file is damaged."""
    for file in files:
        try:
            with (
                storage.filesystem.open_input_stream(storage.full_path(file.path)) as source,
                pa.ipc.open_stream(source) as batches,
            ):
                if not set(work_rows.WORKING_COLUMNS).issubset(batches.schema.names):
                    raise pa.ArrowInvalid("it lacks columns of work rows")
                for batch in batches:
                    # Who writes the table's folder may have changed the file. Arrow would read wherever its offsets lead.
                    batch.validate(full=True)
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            # Errors of the storage have a number, or are rli's own; those of Arrow's readers have none.
            if isinstance(error, RliError) or getattr(error, "errno", None) is not None:
                raise
            raise CorruptTableError(
                f"a file of a write's tagged rows is damaged: file={file.path} ({error})",
                remedy="write the records again",
            ) from error
