"""Statistics of the partitions of the table, from those of the files that readers of the present state read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from rli.hudi.metadata.merging import merged_statistics
from rli.hudi.metadata.records import ColumnStatistics


def merged_over_files(
    partition_path: str, files: Sequence[Mapping[str, ColumnStatistics]], columns: Iterable[str]
) -> dict[str, ColumnStatistics]:
    """Tight statistics of the columns of a partition; columns that a file has no statistics of are left out.

    Args:
        partition_path: of the table.
        files: statistics by column of each live file; empty files have none and are not among them.
        columns: that may have statistics.
    """
    found = {}
    for column in columns:
        of_files = [file[column] for file in files if column in file]
        if not files or len(of_files) < len(files):
            continue
        widened = reduce(merged_statistics, of_files)
        if not widened.is_unknown:
            found[column] = replace(widened, file_name=partition_path, of_partition=True, is_tight=True)
    return found
