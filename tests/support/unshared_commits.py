"""Commits of two writers that did not see each other, as Hudi's check of conflicts lets them pass."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from rli import Table, open_table
from tests.support.tables import turn_into_foreign_commit


def write_at_once(table: Table, ours: pa.Table, theirs: pa.Table) -> tuple[str, str]:
    """Upsert records by rli, and others by another engine that builds on the same state and commits last.

    Args:
        table: local, of version 6, with its index in its own folder.
        ours: records of rli.
        theirs: records of the other engine.

    Returns:
        The instants of both commits.
    """
    location = Path(table.location)
    copy = location.with_name(f"{location.name}-copy")
    shutil.copytree(location, copy)
    mine = table.upsert(ours).instant
    with open_table(copy) as other:
        others = other.upsert(theirs).instant
        assert mine is not None
        assert others is not None
        turn_into_foreign_commit(other, others)
    for file in [
        *copy.rglob(f"*_{others}.parquet"),
        *copy.glob("*/.hoodie_partition_metadata"),
        *copy.glob(f".hoodie/{others}.*"),
    ]:
        target = location / file.relative_to(copy)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(file, target)
    shutil.rmtree(copy)
    return mine, others
