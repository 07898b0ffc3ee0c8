"""Indexes of columns in the stores of servers: kept by commits, found, and removed with the index of the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import IndexNotFoundError, RepeatedValueError, create_table, drop_table
from rli.store.registry import open_store
from tests.support.indexes import record_index

pytestmark = pytest.mark.invariant("P59")


def users(*rows: tuple[str, str, int]) -> pa.Table:
    return pa.table(
        {name: list(values) for name, values in zip(("id", "email", "ts"), zip(*rows, strict=True), strict=True)}
    )


def test_each_store_keeps_columns(store_url: str, tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", ordering="ts", index=store_url)
    table.upsert(users(*((f"k{number}", f"user{number}@b.org", 1) for number in range(500))))
    table.create_index("by_email", on="email", unique=True)
    table.upsert(users(("k7", "new@b.org", 2), ("k500", "user7@b.org", 2), ("k8", "user8@b.org", 2)))
    table.delete(["k9"])
    wanted = ["user7@b.org", "new@b.org", "user8@b.org", "user9@b.org", "user10@b.org", "nobody"]
    assert sorted(table.get(where={"email": wanted})["id"].to_pylist()) == ["k10", "k500", "k7", "k8"]
    with pytest.raises(RepeatedValueError, match="user10"):
        table.upsert(users(("k501", "user10@b.org", 2)))
    beside = record_index(table).store.url_beside("by_email")
    open_store(beside).close()
    table.close()
    drop_table(table.location)
    with pytest.raises(IndexNotFoundError):
        open_store(beside)
