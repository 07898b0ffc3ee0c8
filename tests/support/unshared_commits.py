"""Commits of two writers that did not see each other, as Hudi's check of conflicts lets them pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable
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
    copy = _copied(table)
    mine = table.upsert(ours).instant
    others = _committed_in(copy, theirs)
    assert mine is not None
    _bring(copy, table, others)
    return mine, others


def commit_to_bring(table: Table, rows: pa.Table) -> Callable[[], None]:
    """A commit of another engine on the present state, which comes into the table when the returned function is called.

    Args:
        table: as for ``write_at_once``.
        rows: records that the other engine upserts.
    """
    copy = _copied(table)
    instant = _committed_in(copy, rows)
    return lambda: _bring(copy, table, instant)


def _copied(table: Table) -> Path:
    location = Path(table.location)
    copy = location.with_name(f"{location.name}-copy")
    shutil.copytree(location, copy)
    return copy


def _committed_in(copy: Path, rows: pa.Table) -> str:
    with open_table(copy) as other:
        instant = other.upsert(rows).instant
        assert instant is not None
        turn_into_foreign_commit(other, instant)
    return instant


def _bring(copy: Path, table: Table, instant: str) -> None:
    for file in [
        *copy.rglob(f"*_{instant}.parquet"),
        *copy.glob("*/.hoodie_partition_metadata"),
        *copy.glob(f".hoodie/{instant}.*"),
    ]:
        target = table.location / file.relative_to(copy)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(file, target)
    shutil.rmtree(copy)
