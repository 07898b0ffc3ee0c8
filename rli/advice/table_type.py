"""Which type of table suits a batch: what a write rewrites in a copy-on-write table, beside what it changes."""

from __future__ import annotations

from typing import Final

from rli.advice.statistics import Survey
from rli.model import TableType
from rli.settings import MEBIBYTE

_WORTH_LOGS: Final = 20
"""Stored records that are rewritten for each changed one, from which on log files pay: a compaction rewrites about ten, and reads of log
files cost something in between."""

_LITTLE: Final = 16 * MEBIBYTE
"""Bytes of base files that are rewritten in so short a time that nothing needs to be saved."""


def type_for(found: Survey) -> tuple[TableType, str]:
    """The type for a table and a batch, and why, in a sentence."""
    batch, table = found.batch, found.table
    changed = max(1.0, batch.keys * batch.known)
    share = batch.hit.rows / changed
    if share >= _WORTH_LOGS and batch.hit.bytes >= _LITTLE:
        chosen = TableType.MERGE_ON_READ
        why = (
            f"In a copy-on-write table, a commit would rewrite {share:,.0f} stored records for each that it changes, "
            f"{batch.hit.bytes / MEBIBYTE:,.0f} MiB: log files take the changes alone, and make scans slower until a compaction."
        )
    else:
        chosen = TableType.COPY_ON_WRITE
        why = (
            f"In a copy-on-write table, a commit rewrites {share:,.0f} stored records for each that it changes, "
            f"{batch.hit.bytes / MEBIBYTE:,.0f} MiB: log files would save little, and make scans slower."
        )
    if table.table_type not in {None, chosen}:
        why += f" Change the type: rli table-type TABLE --set {chosen.replace('_', '-')}"
    return chosen, why
