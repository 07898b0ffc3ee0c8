"""The kinds of index that tests run on, and a model of a table for each scope. A new kind adds a line to ``KINDS``, and to ``_IN_TURN``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar
from zlib import crc32

import pytest

from rli import Scope, Table, TableType, create_table
from rli.view import paths
from tests.support.soak import in_ci
from tests.support.table_model import Outcome, Version
from tests.support.table_model import deleted as deleted_globally
from tests.support.table_model import upserted as upserted_globally
from tests.support.table_types import BOTH_TYPES
from tests.support.tables import turn_into_version_9
from tests.support.turns import SHARE, TURN


@dataclass(frozen=True)
class Kind:
    """A kind of index.

    Attributes:
        url: of ``create_table``; ``{folder}`` stands for a folder of the test.
        scope: where a key is unique.
        can_cluster: whether file groups may be put together.
        version: of the table, 6 or 9.
        table_type: of the table.
        log_inserts: whether its new records go to log files.
    """

    url: str
    scope: Scope
    can_cluster: bool = True
    version: int = 6
    table_type: TableType = TableType.COPY_ON_WRITE
    log_inserts: bool = False

    def create(self, folder: Path, **settings: Any) -> Table:
        """An empty table with key ``id``, partitions by ``city`` and ordering ``ts``."""
        url = self.url.format(folder=folder)
        table = create_table(
            folder / "table",
            record_key="id",
            partition_by="city",
            ordering="ts",
            index=url if self.version == 6 else "simple:",
            table_type=self.table_type,
            **settings,
        )
        if self.version == 9:
            turn_into_version_9(table)
            table.bootstrap_index(url)
        if self.log_inserts:
            table.set_log_inserts(True)
        return table

    def model(self) -> TableModel:
        """An empty table as plain values."""
        return TableModel(self.scope, frozenset())


KINDS = {
    "record": Kind("lmdb://{folder}/index", Scope.GLOBAL),
    "record-partition": Kind(f"lmdb://{{folder}}/table/{paths.INDEX}?scope=partition", Scope.PARTITION),
    "simple": Kind("simple:", Scope.PARTITION),
    "global-simple": Kind("global-simple:", Scope.GLOBAL),
    # With six buckets, the keys k and l of the tests are in two of them.
    "consistent-bucket": Kind("consistent-bucket:?buckets=6&min.num.buckets=1", Scope.PARTITION),
    "bucket": Kind("bucket:?buckets=4", Scope.PARTITION, can_cluster=False),
    "bloom": Kind("bloom:", Scope.PARTITION),
    "global-bloom": Kind("global-bloom:", Scope.GLOBAL),
}

IN_METADATA_TABLE = {
    "metadata": Kind("record-index:", Scope.GLOBAL),
    # Older tables have no partitioned record index.
    "metadata-partition": Kind("record-index:?scope=partition", Scope.PARTITION, version=9),
}

ALL_KINDS = KINDS | IN_METADATA_TABLE

MERGE_ON_READ = {f"{name}-logs": replace(kind, table_type=TableType.MERGE_ON_READ) for name, kind in ALL_KINDS.items()}
"""The same kinds on tables with log files; one of them in table version 9."""
MERGE_ON_READ["record-logs"] = replace(MERGE_ON_READ["record-logs"], version=9)

LOG_INSERTS = {
    f"{name}-inserts": replace(MERGE_ON_READ[f"{name}-logs"], log_inserts=True)
    for name in ("record", "record-partition", "metadata")
}
"""Kinds on tables whose new records go to log files."""


Test = TypeVar("Test", bound=Callable[..., object])


def _on(names: Collection[str]) -> pytest.MarkDecorator:
    """With each kind, on tables of both types."""
    pairs = [
        (name, kinds[key]) for name in names for key, kinds in ((name, ALL_KINDS), (f"{name}-logs", MERGE_ON_READ))
    ]
    ids = [f"{name}-{type_name}" for name in names for type_name in BOTH_TYPES]
    return pytest.mark.parametrize("kind", [kind for _, kind in pairs], ids=ids)


with_metadata_kinds = _on(ALL_KINDS)

_IN_TURN: Final = (
    ("record", "simple", "global-bloom"),
    ("record-partition", "global-simple", "bucket"),
    ("metadata", "bloom", "consistent-bucket"),
)
"""Each with both scopes, and with kinds that find keys in different ways. Kinds in the metadata table differ in their scope alone."""

assert {*ALL_KINDS} == {*chain(*_IN_TURN), "metadata-partition"}


def every_kind_but(*names: str) -> Callable[[Test], Test]:
    """Run a test with each kind but some in ``make soak``. Elsewhere a test runs with a quarter of the kinds, in turn."""

    def mark(test: Test) -> Test:
        # Cases that have their turn are chosen from these. The quotient makes all kinds meet all types of tables.
        turn = crc32(test.__name__.encode()) + (TURN or 0) // SHARE
        few = _IN_TURN[turn % len(_IN_TURN)]
        return _on([name for name in in_ci(few, of=ALL_KINDS) if name not in names])(test)

    return mark


every_kind = every_kind_but()
# For what follows the folders, or commits that have left the timeline: a metadata table tells of files, and keeps commits.
kinds_without_metadata_table = every_kind_but(*IN_METADATA_TABLE)

Counts: TypeAlias = tuple[int, int, int, int, int]
"""Inserted, updated, moved, deleted, unchanged."""


@dataclass(frozen=True)
class TableModel:
    """A table as its promises say, for keys that are unique in a scope.

    Attributes:
        scope: where.
        rows: all of its records.
    """

    scope: Scope
    rows: frozenset[Version]

    def upserted(self, batch: Iterable[Version]) -> tuple[TableModel, Counts]:
        outcome = upserted_globally(self._by_key(), [(self._key(row), *row[1:]) for row in batch])
        return self._after(outcome), outcome.counts

    def deleted(self, keys: Iterable[str]) -> tuple[TableModel, Counts]:
        wanted = set(keys)
        outcome = deleted_globally(self._by_key(), {self._key(row) for row in self.rows if row[0] in wanted})
        unknown = len(wanted - {row[0] for row in self.rows})
        return self._after(outcome), (0, 0, 0, outcome.counts[3], unknown)

    def places_of(self, key: str) -> set[str | None]:
        """The partitions that hold a key; None alone where none does."""
        return {row[1] for row in self.rows if row[0] == key} or {None}

    def _by_key(self) -> dict[str, Version]:
        return {self._key(row): (self._key(row), *row[1:]) for row in self.rows}

    def _key(self, row: Version) -> str:
        return row[0] if self.scope is Scope.GLOBAL else f"{row[0]}\0{row[1]}"

    def _after(self, outcome: Outcome) -> TableModel:
        return TableModel(self.scope, frozenset((row[0].partition("\0")[0], *row[1:]) for row in outcome.rows.values()))


def stored_rows(table: Table) -> frozenset[Version]:
    """The records of a table; fails if one is there twice."""
    rows = [tuple(row.values()) for row in table.read(columns=["id", "city", "ts", "v"]).to_pylist()]
    assert len(set(rows)) == len(rows), "a record is there twice"
    return frozenset(rows)
