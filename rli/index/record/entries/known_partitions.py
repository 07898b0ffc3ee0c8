"""Which partitions an index knows: all, or those that match a pattern (``?partitions=REGEX``)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import InvalidInputError
from rli.patterns import fits


class KnownPartitions:
    """The partitions of an index. Its entries are of no others.

    Attributes:
        pattern: regular expression of their whole partition paths; None for all partitions.
    """

    def __init__(self, pattern: str | None) -> None:
        self.pattern = pattern

    @property
    def are_all(self) -> bool:
        return self.pattern is None

    def __contains__(self, partition_path: str) -> bool:
        return self.pattern is None or fits(self.pattern, partition_path)

    def rows_in(self, partition_paths: pa.Array) -> pa.Array | None:
        """Which rows are in known partitions: boolean array, shape (n,); None where all are."""
        if self.are_all:
            return None
        known = [path for path in pc.unique(partition_paths).to_pylist() if path is not None and path in self]
        return pc.is_in(partition_paths, value_set=pa.array(known, pa.string()))

    def require(self, partition_paths: Iterable[str], url: str, question: str) -> None:
        """Pass partitions that are known.

        Args:
            partition_paths: of what is asked.
            url: of the index.
            question: what cannot be done otherwise, such as "write a record".

        Raises:
            InvalidInputError: names one that is not.
        """
        unknown = None if self.are_all else next((path for path in partition_paths if path not in self), None)
        if unknown is not None:
            raise InvalidInputError(
                f"the index knows some partitions only, and cannot {question}: partition={unknown} "
                f"partitions={self.pattern} index={url}",
                remedy="open the table with an index of all partitions, or of this one too",
            )
