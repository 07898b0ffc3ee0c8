"""Each operation of a table while an index on a column is built: the index is built, and what it finds is what is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from rli import ColumnIndexState, PruningStep, RliError, Table, create_table, open_table
from tests.support.soak import in_ci
from tests.support.tables import records, turn_into_version_9

Operation = Callable[[Table], object]


def _restore(table: Table) -> None:
    table.restore(table.savepoint(table.timeline()[-2].time))


OPERATIONS: Final[dict[str, Operation]] = {
    "upsert": lambda table: table.upsert(records(("a", "y", 9, 3.0), ("n", "x", 3, 3.0))),
    "clean": lambda table: (table.upsert(records(("a", "x", 9, 3.0))), table.clean(keep_commits=1)),
    "rollback": lambda table: table.rollback("last"),
    "delete": lambda table: table.delete(["a"]),
    "overwrite": lambda table: table.overwrite_partitions(records(("o", "x", 1, 3.0))),
    "cluster": lambda table: table.cluster(),
    "archive": lambda table: table.archive(keep_commits=1),
    "restore": _restore,
    "type": lambda table: table.set_table_type("merge_on_read"),
    "migrate": lambda table: table.migrate_index(f"lmdb://{table.location}-other"),
    "create": lambda table: table.create_index("other", on="v", using="column_stats"),
    "drop": lambda table: table.drop_index("before"),
}
"""Of them, ``docs/how-to/index-a-column.md`` says what becomes of the build."""

FAILS: Final = {"migrate"}
"""Beside these, a build fails: the signs of life of its process, or its entries, are in the store that is given up."""


@pytest.mark.parametrize("name", in_ci(["upsert", "clean", "rollback", "migrate"], of=OPERATIONS))
@pytest.mark.parametrize(
    "kind",
    [
        ("store", "secondary", "rli.index.record.columns.building.shards"),
        ("metadata", "secondary", "rli.table.births.prepare_partitions"),
        ("metadata", "column_stats", "rli.table.births.prepare_partitions"),
    ],
)
def test_builds_go_on_beside_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: tuple[str, str, str]
) -> None:
    home, using, step = kind
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    turn_into_version_9(table)
    for ts in (1, 2, 3):
        table.upsert(records(("a", "x", ts, 1.0), ("b", "y", 1, 2.0), (f"k{ts}", "z", ts, 1.0)))
    table.create_index("before", on="ts", expression="ts * 2")
    place, attribute = step.rsplit(".", 1)
    proceed: Any = getattr(__import__(place, fromlist=[attribute]), attribute)

    def interrupted(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(step, proceed)
        # A partition is prepared of a state, and the slices of a state are put into a store.
        prepared = proceed(*given, **options) if home == "metadata" else None
        OPERATIONS[name](open_table(table.location))
        return proceed(*given, **options) if home == "store" else prepared

    table.create_index("by_ts", on="ts", using=using, home=home if using == "secondary" else None, wait=False)
    monkeypatch.setattr(step, interrupted)
    if name in FAILS:
        with pytest.raises(RliError):
            table.build_indexes()
    else:
        table.build_indexes()
    built = open_table(table.location)
    built.build_indexes()
    assert {index.name: index.state for index in built.indexes()}["by_ts"] is ColumnIndexState.VALID
    for _ in range(2):
        everything = built.read().to_pylist()
        for ts in (1, 2, 3, 9):
            expected = sorted(row["id"] for row in everything if row["ts"] == ts)
            assert sorted(built.read(filters=f"ts = {ts}")["id"].to_pylist()) == expected
        asked = built.scan(filters="ts = 1").explain().files.pruned
        assert (PruningStep.SECONDARY_INDEX if using == "secondary" else PruningStep.COLUMN_STATS) in asked
        built.upsert(records(("b", "x", 9, 9.0)))
    assert built.metadata.verify() == ()
