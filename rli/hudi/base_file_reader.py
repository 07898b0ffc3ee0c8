"""Reading base files: Parquet files with Hudi's meta columns in front and Hudi's footer.

Only ``rli.view.file_slice_reader`` uses it: a file slice may have more than its base file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from rli.errors import CorruptTableError
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.schema import conform
from rli.storage import Storage


class BaseFileReader:
    """Reads one base file in batches; memory is bounded by a batch and a row group's columns."""

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        with corrupt_unless_parquet(path):
            source = storage.filesystem.open_input_file(storage.full_path(path))
            self._file = pq.ParquetFile(source)

    @property
    def rows(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """As stored, without metadata."""
        schema: pa.Schema = self._file.schema_arrow.remove_metadata()
        return schema

    def bloom_filter(self) -> BloomFilter | None:
        """Of the record keys, from the footer; None where the file has none."""
        return BloomFilter.from_footer(self._file.metadata.metadata or {}, self.path)

    def read_columns(self, schema: pa.Schema) -> pa.Table:
        """The whole file, reduced to the columns of ``schema`` and made to fit it."""
        with corrupt_unless_parquet(self.path):
            return conform(self._file.read(columns=self._present(schema)), schema)

    def batches(self, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        """The file's records in order, in batches of ``rows``, made to fit ``schema``."""
        with corrupt_unless_parquet(self.path):
            for batch in self._file.iter_batches(rows, columns=self._present(schema)):
                yield conform(pa.table(batch), schema)

    def _present(self, schema: pa.Schema) -> list[str]:
        stored = set(self._file.schema_arrow.names)
        return [name for name in schema.names if name in stored]

    def close(self) -> None:
        self._file.close(force=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def corrupt_unless_parquet(path: str) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged or missing file into ``CorruptTableError`` with the file's name."""
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptTableError(
            f"a base file is missing: file={path}; restore it, or roll the commit back that wrote it"
        ) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise CorruptTableError(
            f"a base file cannot be read as Parquet: file={path} ({error}); restore it, or roll the commit back "
            "that wrote it"
        ) from error
