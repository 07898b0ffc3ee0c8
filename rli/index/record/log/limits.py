"""How much of a commit log is held record by record, and when the rest goes into a checkpoint (P23)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Bounds of a commit log in memory. Not stored: processes with other limits read the same log.

    Attributes:
        read_singly: of the newest records, so many stay out of checkpoints at least; twice as many make a new one.
        groups_read_singly: file groups in those records; more of them go into a checkpoint at once, as they do after a
            bootstrap.
        held: of a log without a checkpoint, so many records are held at most while it is read; the rest is kept in columns.
        per_page: records that a page of a checkpoint stands for.
    """

    read_singly: int = 128
    groups_read_singly: int = 1024
    held: int = 1024
    per_page: int = 128


DEFAULT_LIMITS = LogLimits()
