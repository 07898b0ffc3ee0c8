"""An Iceberg table whose keys are in an rli index: an upsert deletes only in the partitions that hold the batch's keys.

Run it in an empty folder: python iceberg_with_index.py (needs pyiceberg[sql-sqlite])
"""

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, In
from pyiceberg.table import Table

import rli

INDEX = f"lmdb://{Path.cwd()}/trips_iceberg_index"


def upsert(table: Table, batch: pa.Table) -> None:
    """Insert, update and move rows by their id, in the Iceberg table and then in the index."""
    with rli.open_index(INDEX) as index:
        heal(table, index)
        with index.begin() as txn:
            known = txn.tag(batch["id"])
            known = known.filter(known["partition_path"].is_valid())
            # The partition stays right when other tools rewrite the table's files. So it is the location, and no file is.
            places = {"record_key": batch["id"], "partition_path": batch["city"], "file_id": ["-"] * len(batch)}
            txn.stage(pa.table(places))
            txn.prepare()
            marked = {"rli.transaction": txn.id}
            with table.transaction() as commit:
                if len(known):
                    cities, keys = known["partition_path"].unique().to_pylist(), known["record_key"].to_pylist()
                    commit.delete(And(In("city", cities), In("id", keys)), snapshot_properties=marked)
                commit.append(batch, snapshot_properties=marked)
            txn.commit({"iceberg.snapshot": snapshot_of(table)})


def heal(table: Table, index: rli.RecordIndex) -> None:
    """Decide what a writer left undecided when it died: its snapshot is in the table, or it is not."""
    pending = index.pending()
    # Read after the pending transactions: a writer that is dead by then commits nothing more to the table.
    summaries = [snapshot.summary for snapshot in table.refresh().snapshots()]
    committed = {summary["rli.transaction"] for summary in summaries if summary and "rli.transaction" in summary}
    for transaction in pending:
        if transaction.id in committed:
            transaction.commit({"iceberg.snapshot": snapshot_of(table)})
        elif transaction.writer_is_dead:
            transaction.abort()


def rebuild(table: Table) -> None:
    """Make the index again from the table's files, such as after another tool has changed rows."""
    with rli.open_index(INDEX) as old:
        old.drop()
    with rli.create_index(INDEX) as index, index.begin() as txn:
        for rows in table.scan(selected_fields=("id", "city")).to_arrow_batch_reader():
            places = [rows["id"], rows["city"], pa.repeat("-", len(rows))]
            txn.stage(pa.table(places, names=["record_key", "partition_path", "file_id"]))
        txn.commit({"iceberg.snapshot": snapshot_of(table)})


def snapshot_of(table: Table) -> str:
    """The current snapshot's id."""
    snapshot = table.refresh().current_snapshot()
    return str(snapshot.snapshot_id if snapshot else None)


def main() -> None:
    """Create the table, write twice, and make the index again after a change that bypassed it."""
    warehouse = Path("trips_iceberg").absolute()
    warehouse.mkdir()
    catalog = SqlCatalog("demo", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace("demo")
    trips = pa.table({"id": ["a", "b", "c"], "city": ["Rome", "Oslo", "Rome"], "fare": [9.5, 12.0, 4.0]})
    table = catalog.create_table("demo.trips", trips.schema)
    with table.update_spec() as spec:
        spec.add_identity("city")
    rli.create_index(INDEX).close()
    upsert(table, trips)
    # b moves from Oslo to Bern, d is new.
    upsert(table, pa.table({"id": ["b", "d"], "city": ["Bern", "Rome"], "fare": [8.0, 7.5]}))
    print(table.scan().to_arrow().sort_by("id").to_pydict())

    table.delete("id = 'a'")
    with rli.open_index(INDEX) as index:
        last = index.last_commit(having="iceberg.snapshot")
        print("in step:", last is not None and last.metadata["iceberg.snapshot"] == snapshot_of(table))
    rebuild(table)
    with rli.open_index(INDEX) as index:
        print(index.lookup(["a", "b"])["partition_path"].to_pylist())
    catalog.close()


if __name__ == "__main__":
    main()
