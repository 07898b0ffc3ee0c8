"""Recommends the type of a table: by the records that a copy-on-write table would rewrite for each changed record."""

from __future__ import annotations

from typing import Final

from rli.advice.statistics import Survey
from rli.model import TableType
from rli.settings import MEBIBYTE

_LEAST_REWRITTEN: Final = 20
"""Rewritten records for each changed record, from which on log files pay: a compaction rewrites about ten, and reads of log files
cost time until then."""

_LEAST_BYTES: Final = 16 * MEBIBYTE
"""Fewer bytes of base files are rewritten in so short a time that log files save nothing."""


def type_for(found: Survey) -> tuple[TableType, str]:
    """The recommended type of a table for a batch, and the reason in a sentence or two."""
    batch, table = found.batch, found.table
    changed = max(1.0, batch.keys * batch.known)
    share = batch.hit.rows / changed
    if share >= _LEAST_REWRITTEN and batch.hit.bytes >= _LEAST_BYTES:
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
