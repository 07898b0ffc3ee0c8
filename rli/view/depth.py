"""How much of a merge-on-read table is in log files: what doctor says, and what a gauge tells."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rli.telemetry import metrics
from rli.view.file_slices import FileSlice


@dataclass(frozen=True, slots=True)
class Depth:
    """The depth of some file slices.

    Attributes:
        most_log_files: of the deepest slice: a reader opens each of them.
        log_bytes: of all log files.
        base_bytes: of all base files.
    """

    most_log_files: int
    log_bytes: int
    base_bytes: int


def told_depth(location: str, slices: Collection[FileSlice]) -> Depth:
    """The depth of all present file slices of a merge-on-read table; sets the gauge.

    Args:
        location: of the table.
        slices: its file slices.
    """
    found = Depth(
        max((len(one.logs) for one in slices), default=0),
        sum(log.size for one in slices for log in one.logs),
        sum(one.base.size for one in slices if one.base is not None),
    )
    metrics.DEEPEST_SLICE.set(found.most_log_files, table=location)
    return found
