"""Change batches in every form that a merge takes, and what a table promises of them, as plain dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from rli import CommitResult, Scope
from tests.support.tables import SCHEMA, records

Counts: TypeAlias = tuple[int, int, int, int, int]
"""Inserted, updated, moved, deleted, unchanged."""

Stored: TypeAlias = tuple[str | None, int, float | None]
"""City, ts and v of a record."""


class Change(NamedTuple):
    """One change: with ``op`` "d" a delete, else a write of its record."""

    id: str
    city: str | None
    ts: int
    v: float | None
    op: str


def counts(result: CommitResult) -> Counts:
    return result.inserted, result.updated, result.moved, result.deleted, result.unchanged


def in_columns(changes: Sequence[Change], op: str = "op") -> pa.Table:
    """An operation column beside the columns of records."""
    return records(*(change[:4] for change in changes)).append_column(
        op, pa.array([c.op for c in changes], pa.string())
    )


def flattened(changes: Sequence[Change]) -> pa.Table:
    """Debezium's flattened events."""
    told = ["true" if change.op == "d" else "false" for change in changes]
    return in_columns(changes, "__op").append_column("__deleted", pa.array(told, pa.string()))


def with_marks(changes: Sequence[Change]) -> pa.Table:
    """Hudi's mark alone."""
    marks = pa.array([change.op == "d" for change in changes], pa.bool_())
    return records(*(change[:4] for change in changes)).append_column("_hoodie_is_deleted", marks)


_IMAGE: Final = pa.struct([field for field in SCHEMA if field.name != "ts"])


def envelope(changes: Sequence[Change]) -> pa.Table:
    """Debezium's envelope, with the ordering value in its source, and a tombstone behind each delete."""
    rows = []
    for change in changes:
        image = {"id": change.id, "city": change.city, "v": change.v}
        is_delete = change.op == "d"
        source = {"db": "shop", "ts": change.ts}
        rows.append(
            {
                "before": image if is_delete else None,
                "after": None if is_delete else image,
                "op": change.op,
                "source": source,
            }
        )
        if is_delete:
            rows.append(dict.fromkeys(("before", "after", "op", "source")))
    source = pa.struct([("db", pa.string()), ("ts", pa.int64())])
    schema = pa.schema([("before", _IMAGE), ("after", _IMAGE), ("op", pa.string()), ("source", source)])
    return pa.Table.from_pylist(rows, schema=schema).append_column("ts_ms", pa.nulls(len(rows), pa.int64()))


FORMS: Final[dict[str, Callable[[Sequence[Change]], pa.Table]]] = {
    "columns": in_columns,
    "flattened": flattened,
    "marks": with_marks,
    "envelope": envelope,
}


def op_of(form: str) -> str | None:
    """What a caller names as the operation column of a form."""
    return "op" if form == "columns" else None


@dataclass
class MergeModel:
    """A table with key ``id``, partitions by ``city`` and ordering ``ts``, and the deletes that it remembers.

    Attributes:
        scope: where a key is unique.
        rows: by key, with partition scope by key and city.
        deleted: the greatest ordering value of a delete of each key.
    """

    scope: Scope
    rows: dict[tuple[str, str | None], Stored] = field(default_factory=dict)
    deleted: dict[tuple[str, str | None], int] = field(default_factory=dict)

    def merge(self, changes: Iterable[Change], when: Callable[[Change, Stored], bool] = lambda *_: True) -> Counts:
        newest: dict[tuple[str, str | None], Change] = {}
        for change in changes:
            key = (change.id, None if self.scope is Scope.GLOBAL else change.city)
            if key not in newest or change.ts >= newest[key].ts:
                newest[key] = change
        told = [self._apply(key, change, when) for key, change in newest.items()]
        inserted, updated, moved, deleted, unchanged = (sum(name == found for found in told) for name in _OUTCOMES)
        return inserted, updated, moved, deleted, unchanged

    def _apply(self, key: tuple[str, str | None], change: Change, when: Callable[[Change, Stored], bool]) -> str:
        stored, former = self.rows.get(key), self.deleted.get(key)
        if stored is not None and stored[1] <= change.ts and not when(change, stored):
            return "unchanged"
        if change.op == "d":
            self.deleted[key] = max(change.ts, change.ts if former is None else former)
        if stored is None:
            if change.op == "d" or (former is not None and former > change.ts):
                return "unchanged"
            self.rows[key] = change[1:4]
            return "inserted"
        if stored[1] > change.ts:
            return "unchanged"
        if change.op == "d":
            del self.rows[key]
            return "deleted"
        self.rows[key] = change[1:4]
        return "updated" if stored[0] == change.city else "moved"

    def stored(self) -> set[tuple[str, str | None, int, float | None]]:
        """All records: id, city, ts, v."""
        return {(key[0], *row) for key, row in self.rows.items()}


_OUTCOMES: Final = ("inserted", "updated", "moved", "deleted", "unchanged")
