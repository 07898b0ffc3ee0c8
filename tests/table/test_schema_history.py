"""Tables whose columns Hudi's schema-on-read has given ids: rli reads them if it finds each column by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rli import Step, Table, UnsupportedTableError, open_table
from rli.commit.step_clock import OnStep
from tests.support.tables import fingerprint, records, rows_of


def _with_history(table: Table, *schemas: list[dict[str, Any]]) -> Table:
    """The table with a history of its columns, the newest first, as Hudi writes it."""
    folder = Path(table.location) / ".hoodie"
    [commit] = folder.glob("*.commit")
    content = json.loads(commit.read_text())
    content["extraMetadata"]["latest_schema"] = json.dumps({"type": "record", "fields": schemas[0]})
    commit.write_text(json.dumps(content))
    (folder / ".schema").mkdir()
    history = {"schemas": [{"version-id": n, "type": "record", "fields": fields} for n, fields in enumerate(schemas)]}
    (folder / ".schema" / f"{commit.stem}.schemacommit").write_text(json.dumps(history))
    return open_table(table.location, index=table.settings.index_url)


def _column(number: int, name: str, kind: Any = "string") -> dict[str, Any]:
    return {"id": number, "name": name, "optional": True, "type": kind}


def _struct(name: str) -> dict[str, Any]:
    return _column(1, "s", {"type": "record", "fields": [_column(2, name)]})


def test_added_columns_are_read(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    found = _with_history(trips, [_column(0, "id"), _column(1, "v")], [_column(0, "id")])
    assert rows_of(found) == rows_of(trips)


@pytest.mark.parametrize("before_that", [[_column(0, "id")], [_column(0, "id"), _column(1, "price")]])
def test_writes_are_refused_before_tagging(trips: Table, before_that: list[dict[str, Any]]) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    found = _with_history(trips, [_column(0, "id"), _column(1, "v")], before_that)
    writes: list[Callable[[OnStep], object]] = [
        lambda on_step: found.upsert(records(("b", "x", 1, 1.0)), on_step=on_step),
        lambda on_step: found.insert(records(("c", "x", 1, 1.0)), on_step=on_step),
        lambda on_step: found.delete(["a"], on_step=on_step),
        lambda on_step: found.delete(["none"], on_step=on_step),
        lambda on_step: found.cluster(on_step=on_step),
    ]
    before = fingerprint(found)
    for write in writes:
        steps: list[Step] = []
        with pytest.raises(UnsupportedTableError, match=r"schema-on-read.*; write"):
            write(steps.append)
        assert steps == []
    assert fingerprint(found) == before


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ([_column(0, "v")], [_column(0, "price")]),
        ([_column(5, "v")], [_column(0, "v")]),
        ([_struct("v")], [_struct("price")]),
    ],
    ids=["renamed", "added again", "field renamed"],
)
def test_renamed_columns_are_refused(trips: Table, now: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    with pytest.raises(UnsupportedTableError, match=r"column=(s\.)?(v|price)"):
        _with_history(trips, now, before).read()
