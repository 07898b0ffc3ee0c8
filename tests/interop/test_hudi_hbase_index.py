"""Apache Hudi's own HBase index and ours are one index: writers in the JVM and in Python take turns on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import happybase
import pyarrow as pa
import pytest

from tests.support.docker import Service, free_ports
from tests.support.hbase import new_table, url_of
from tests.support.hbase_hudi import hbase_on_host, hbase_options, rows_in
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import LAST_WITH_HBASE, HudiEngine
from tests.support.hudi_options import write_options
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.docker, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",))


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    """Of the Thrift server and of ZooKeeper."""
    thrift, zookeeper = free_ports(2)
    return thrift, zookeeper


@pytest.fixture(scope="module")
def hbase(ports: tuple[int, int]) -> Iterator[Service]:
    with hbase_on_host(*ports) as service:
        yield service


class Turns:
    """A table that both write, and the HBase table of its index."""

    def __init__(self, engine: HudiEngine, history: History, ports: tuple[int, int], table: str) -> None:
        self.history = history
        self._engine = engine
        self._thrift, zookeeper = ports
        self._table = table
        self._options = {
            **write_options(engine, history.layout, index="HBASE"),
            **hbase_options(zookeeper, table),
        }

    def hudi_upserts(self, *rows: Row) -> None:
        self._engine.write(self.history.path, pa.Table.from_pylist(list(rows), SCHEMA), self._options)
        self.history.expect_upserted(rows)

    def hudi_deletes(self, *rows: Row) -> None:
        options = {**self._options, "hoodie.datasource.write.operation": "delete"}
        self._engine.write(self.history.path, pa.Table.from_pylist(list(rows), SCHEMA), options)
        self.history.expect_deleted([row["id"] for row in rows])

    def stored(self) -> dict[str, tuple[str, str, str]]:
        connection = happybase.Connection("localhost", self._thrift)
        try:
            return rows_in(connection.table(self._table))
        finally:
            connection.close()

    def require_agreement(self) -> None:
        """Table, index and rows say the same, and no key is there twice."""
        self.history.table.sync_index()
        rows = self.history.table.read()
        assert sorted_rows(rows) == self.history.rows
        assert len(set(rows["id"].to_pylist())) == rows.num_rows
        report = self.history.table.verify_index()
        assert report.agrees, report
        assert report.records == report.entries == rows.num_rows
        assert {key: row[2] for key, row in self.stored().items()} == {
            row["id"]: row["city"] for row in self.history.rows
        }


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("engine", [LAST_WITH_HBASE], indirect=True)
def test_rli_and_hudi_share_index(hbase: Service, ports: tuple[int, int], engine: HudiEngine, tmp_path: Path) -> None:
    table = new_table()
    history = new_history(BY_CITY, tmp_path, url_of(hbase.host, ports[0], table, schema="hudi"))
    turns = Turns(engine, history, ports, table)
    history.upsert([trip("a"), trip("b"), trip("c", city="Rome"), trip("d", city="Rome"), trip("Ünïcode 😀")])

    # Hudi updates, moves and deletes what we wrote, and inserts.
    turns.hudi_upserts(trip("a", ts=2), trip("c", ts=2, city="Oslo"), trip("e", ts=2), trip("f", ts=2, city="Lima"))
    written = turns.stored()
    turns.require_agreement()
    assert turns.stored() == written
    turns.hudi_deletes(trip("b"), trip("e"))

    # We update, move and delete what Hudi wrote, and insert what it deleted.
    result = history.upsert([trip("f", ts=3), trip("c", ts=3, city="Rome"), trip("b", ts=3), trip("g", ts=3)])
    assert (result.inserted, result.updated, result.moved) == (2, 0, 2)
    assert history.delete(["d"]).deleted == 1
    turns.require_agreement()

    # Hudi again, on keys that had been moved, deleted and inserted again.
    turns.hudi_upserts(trip("d", ts=4), trip("f", ts=4, city="Rome"), trip("b", ts=4), trip("g", ts=4, city="Lima"))
    assert history.upsert([trip("g", ts=5, city="Oslo"), trip("d", ts=5)]).moved == 1
    turns.require_agreement()

    # The index is rebuilt beside Hudi's, and both go on.
    assert history.table.bootstrap_index() == len(history.rows)
    turns.hudi_upserts(trip("a", ts=6, city="Lima"), trip("h", ts=6))
    turns.require_agreement()
    assert sorted_rows(without_meta_columns(engine.read(history.path))) == history.rows
    history.table.close()
