"""Which cells of a file group a look-up asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from rli.hudi.hfile.reader import HFileReader
from rli.hudi.metadata.secondary_keys import prefixes_of, range_of


class Sought(Protocol):
    """Some keys, of all that there may be."""

    def __len__(self) -> int:
        """How many keys or values are sought."""

    def are_among(self, keys: pa.Array) -> pa.BooleanArray:
        """Which of some keys (binary array) are sought."""

    def cells(self, reader: HFileReader) -> Iterator[pa.RecordBatch]:
        """The cells of sought keys in an HFile, in order: batches of ``CELLS``."""


@dataclass(frozen=True, slots=True)
class SoughtKeys:
    """Single keys.

    Attributes:
        keys: binary array, sorted, distinct.
    """

    keys: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    def without(self, found: Sequence[pa.Array]) -> SoughtKeys:
        """The keys that are not among some others."""
        return SoughtKeys(
            self.keys.filter(pc.invert(pc.is_in(self.keys, value_set=pa.chunked_array(found, pa.binary()))))
        )

    def are_among(self, keys: pa.Array) -> pa.BooleanArray:
        return pc.is_in(keys, value_set=self.keys)

    def cells(self, reader: HFileReader) -> Iterator[pa.RecordBatch]:
        yield reader.lookup(self.keys)


@dataclass(frozen=True, slots=True)
class SoughtValues:
    """The keys of all entries of some values in a secondary index.

    Attributes:
        prefixes: how these keys begin: binary array, sorted, distinct.
    """

    prefixes: pa.Array

    def __len__(self) -> int:
        return len(self.prefixes)

    def are_among(self, keys: pa.Array) -> pa.BooleanArray:
        return pc.is_in(prefixes_of(keys).cast(pa.binary()), value_set=self.prefixes)

    def cells(self, reader: HFileReader) -> Iterator[pa.RecordBatch]:
        for batch in reader.blocks_within([range_of(prefix) for prefix in self.prefixes.to_pylist()]):
            yield batch.filter(self.are_among(batch["key"]))


@dataclass(frozen=True, slots=True)
class SoughtBegin:
    """All keys that begin alike.

    Attributes:
        begin: in UTF-8, not empty.
    """

    begin: bytes

    def __len__(self) -> int:
        return 1

    def are_among(self, keys: pa.Array) -> pa.BooleanArray:
        return pc.starts_with(keys.cast(pa.binary()), pattern=self.begin)

    def cells(self, reader: HFileReader) -> Iterator[pa.RecordBatch]:
        for batch in reader.blocks_within([range_of(self.begin)]):
            yield batch.filter(self.are_among(batch["key"]))
