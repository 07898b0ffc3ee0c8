"""Which bucket of a partition a record key belongs to: what each kind answers in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.index.placing import Placement
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ArrivingRecords:
    """Records that are to be placed in one partition.

    Attributes:
        partition_path: of the partition.
        slices: bucket → its file slice.
        count: how many records there are.
    """

    partition_path: str
    slices: Mapping[int, FileSlice]
    count: int


class Hashing(ABC):
    """The hash function of a table, as of one state of it. Picklable. A partition's buckets have numbers from 0 on."""

    @abstractmethod
    def hashes(self, record_keys: pa.Array) -> NDArray[np.int64]:
        """A number of 31 bits for each record key (string array, shape (n,)), the same in all partitions."""

    @abstractmethod
    def buckets_of(self, partition_path: str, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bucket of each hash in a partition: shape (n,) → (n,)."""

    @abstractmethod
    def bucket_of(self, group: FileGroupId) -> int | None:
        """The bucket that a file group is; None for one that is no bucket of its partition."""

    @abstractmethod
    def placement(self, arriving: ArrivingRecords) -> Placement:
        """The file groups of some records of a partition; buckets that have no file group yet get one."""

    @property
    @abstractmethod
    def described(self) -> str:
        """The settings, for messages."""

    @property
    @abstractmethod
    def advice(self) -> str:
        """What to do where some file slices are not the buckets that they should be."""


class KeepsBuckets(ABC):
    """The role of a hash function that keeps a file of its own for each partition."""

    @abstractmethod
    def keep(self, partition_paths: Iterable[str]) -> None:
        """Write what is kept of those partitions that are new. May be repeated and raced."""


class InfersSettings(ABC):
    """The role of a hash function whose settings can be told from the keys in a table's files."""

    @abstractmethod
    def inferred(self, snapshot: Snapshot, slices: Iterable[FileSlice]) -> str | None:
        """As ``Hashing.advice``, going by the keys of some file slices; None if they fit no settings."""
