"""A history of writes to a table of ours, with the rows that it must have after each of them.

The expected rows come from a dictionary that is changed next to the table, by rules that are written out here once
more: nothing of rli computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import rli
from tests.support.rows import sorted_rows

Row = dict[str, Any]

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("line", pa.int32()),
        ("city", pa.string()),
        ("year", pa.int32()),
        ("day", pa.date32()),
        ("open", pa.bool_()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
    ]
)
WIDER_SCHEMA: Final = SCHEMA.append(pa.field("note", pa.string()))

_WINTER, _SPRING = date(2023, 12, 31), date(2024, 4, 1)


@dataclass(frozen=True)
class Layout:
    """How a table is laid out.

    Attributes:
        record_key, partition_by, hive_style, url_encode_partitions: as ``rli.create_table`` takes them.
    """

    record_key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ()
    hive_style: bool = False
    url_encode_partitions: bool = False

    def __str__(self) -> str:
        styles = ["hive"] * self.hive_style + ["encoded"] * self.url_encode_partitions
        return "-".join(["+".join(self.record_key), "+".join(self.partition_by) or "flat", *styles])


LAYOUTS: Final = (
    Layout(),
    Layout(partition_by=("city",)),
    Layout(partition_by=("city", "year"), hive_style=True),
    Layout(partition_by=("city",), hive_style=True, url_encode_partitions=True),
    Layout(partition_by=("year", "day")),
    Layout(partition_by=("open",), hive_style=True),
    Layout(record_key=("id", "line")),
    Layout(record_key=("id", "line"), partition_by=("day",), hive_style=True),
    Layout(record_key=("id", "line"), partition_by=("city", "year")),
)


@dataclass
class History:
    """A table and what it must hold.

    Attributes:
        layout: of the table.
        path: of the table.
        table: the table.
        states: each instant that still counts, with the rows as of it.
    """

    layout: Layout
    path: Path
    table: rli.Table
    states: list[tuple[str, list[Row]]] = field(default_factory=list)
    _rows: dict[str, Row] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """The rows that the table must hold now."""
        return sorted_rows(self._rows.values())

    def key_of(self, row: Mapping[str, Any]) -> str:
        """The record key of a row, as Hudi forms it."""
        names = self.layout.record_key
        return str(row[names[0]]) if len(names) == 1 else ",".join(f"{name}:{row[name]}" for name in names)

    def upsert(self, rows: Iterable[Row], schema: pa.Schema = SCHEMA) -> rli.CommitResult:
        """Upsert rows; those that are older than the stored ones must not win."""
        listed = list(rows)
        result = self.table.upsert(pa.Table.from_pylist(listed, schema))
        self.expect_upserted(listed, schema)
        return self._record(result)

    def delete(self, record_keys: Iterable[str]) -> rli.CommitResult:
        """Delete records by key."""
        listed = list(record_keys)
        result = self.table.delete(listed)
        self.expect_deleted(listed)
        return self._record(result)

    def roll_back(self) -> None:
        """Undo the last commit."""
        self.table.rollback(self.states.pop()[0])
        kept = self.states[-1][1] if self.states else []
        self._rows = {self.key_of(row): row for row in kept}

    def expect_upserted(self, rows: Iterable[Row], schema: pa.Schema = SCHEMA) -> None:
        """Change the expected rows alone, for an upsert that another engine makes."""
        known: Row = dict.fromkeys(schema.names)
        for row in rows:
            stored = self._rows.get(self.key_of(row))
            if stored is None or row["ts"] >= stored["ts"]:
                self._rows[self.key_of(row)] = {**known, **row}
        self._rows = {key: {**known, **row} for key, row in self._rows.items()}

    def expect_deleted(self, record_keys: Iterable[str]) -> None:
        """Change the expected rows alone, for a delete that another engine makes."""
        for key in record_keys:
            self._rows.pop(key, None)

    def _record(self, result: rli.CommitResult) -> rli.CommitResult:
        assert result.instant is not None
        self.states.append((result.instant, self.rows))
        return result


def trip(key: str, **changes: Any) -> Row:
    """A row of the history's schema."""
    row: Row = {"id": key, "line": 1, "city": "Oslo", "year": 2023, "day": _WINTER, "open": True, "ts": 1, "fare": 1.5}
    return {**row, **changes}


def new_history(layout: Layout, folder: Path, index: str | None = None, small_file_size: int | None = None) -> History:
    """An empty table, with its index at a URL, or else in the folder; see ``rli.create_table``."""
    path = folder / "trips"
    table = rli.create_table(
        path,
        record_key=layout.record_key,
        partition_by=layout.partition_by,
        ordering="ts",
        index=index or f"lmdb://{folder / 'index'}",
        hive_style=layout.hive_style,
        url_encode_partitions=layout.url_encode_partitions,
        small_file_size=small_file_size,
    )
    return History(layout, path, table)


_Step = Callable[[History], object]


def _insert(history: History) -> None:
    # With an encoded layout this value needs escapes; elsewhere it is plain.
    city = "São Paulo: 1/2" if history.layout.url_encode_partitions else "São Paulo"
    history.upsert(
        [
            trip("plain"),
            trip("Ünïcode 😀", city=city, year=2024, day=_SPRING),
            trip("with:colon,comma", open=False),
            trip("with:colon,comma" if "line" in history.layout.record_key else "second line", line=2, open=False),
            trip("null partition", city=None, open=None, year=2024),
            trip("-7", city="-7", year=-7, day=_SPRING, open=None),
        ]
    )


def _update_move_and_come_late(history: History) -> None:
    result = history.upsert(
        [
            trip("plain", ts=5, fare=2.5),
            trip("Ünïcode 😀", city="Oslo", year=2023, day=_WINTER, open=False, ts=6),
            trip("-7", city="Rome", ts=0, fare=9.0),
            trip("new", city="Rome", day=_SPRING, year=2024),
        ]
    )
    assert result.moved == bool(history.layout.partition_by)
    assert result.inserted == 1
    assert result.unchanged == 1


def _delete_some(history: History) -> None:
    keys = [history.key_of(trip(key, line=1)) for key in ("with:colon,comma", "null partition")]
    assert history.delete([*keys, "unknown"]).deleted == 2


def _write_and_roll_back(history: History) -> None:
    history.upsert([trip("plain", ts=7, city="Bergen"), trip("gone", city="Bergen", ts=7)])
    history.roll_back()


def _empty_a_file_group(history: History) -> None:
    everywhere = [history.key_of(row) for row in history.rows if row["city"] != "Oslo"]
    assert history.delete(everywhere).deleted == len(everywhere) > 0


def _add_a_column(history: History) -> None:
    history.upsert(
        [trip("plain", ts=8, note="änd a note"), trip("null partition", city="Oslo", note=None)], WIDER_SCHEMA
    )


def _empty_the_table(history: History) -> None:
    history.delete([history.key_of(row) for row in history.rows])


def _begin_again(history: History) -> None:
    history.upsert([trip("plain", ts=1, city="Rome", note="once more"), trip("other", note=None)], WIDER_SCHEMA)


STEPS: Final[tuple[_Step, ...]] = (
    _insert,
    _update_move_and_come_late,
    _delete_some,
    _write_and_roll_back,
    _empty_a_file_group,
    _add_a_column,
    _empty_the_table,
    _begin_again,
)


def write_history(
    layout: Layout,
    folder: Path,
    after_each: Callable[[History], None] = lambda _: None,
    steps: int = len(STEPS),
    index: str | None = None,
) -> History:
    """Write a table step by step.

    Args:
        layout: of the table.
        folder: where the table and its index are made.
        after_each: called after each step.
        steps: how many steps are taken; with fewer than all the table is not emptied in between.
        index: URL of the index; by default in the folder.
    """
    history = new_history(layout, folder, index)
    for step in STEPS[:steps]:
        step(history)
        after_each(history)
    return history
