"""A Delta table whose keys are in an rli index: a merge opens only the partitions that hold the batch's keys.

Run it in an empty folder: python delta_with_index.py (needs deltalake)
"""

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

import rli

TABLE, INDEX = "trips_delta", f"lmdb://{Path.cwd()}/trips_delta_index"


def upsert(batch: pa.Table) -> DeltaTable:
    """Insert, update and move rows by their id, in the Delta table and then in the index."""
    with rli.open_index(INDEX) as index:
        heal(index)
        table = DeltaTable(TABLE)
        with index.begin() as txn:
            found = txn.tag(batch["id"])["partition_path"].drop_null().unique().to_pylist()
            # The partition stays right when other tools compact the table's files. So it is the location, and no file is.
            places = {"record_key": batch["id"], "partition_path": batch["city"], "file_id": ["-"] * len(batch)}
            txn.stage(pa.table(places))
            txn.prepare()
            cities = ", ".join("'{}'".format(city.replace("'", "''")) for city in found) or "NULL"
            marked = CommitProperties(custom_metadata={"rli.transaction": txn.id})
            merge = table.merge(batch, f"t.id = s.id AND t.city IN ({cities})", "s", "t", commit_properties=marked)
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
            txn.commit({"delta.version": str(table.version())})
    return table


def heal(index: rli.RecordIndex) -> None:
    """Decide what a writer left undecided when it died: its merge is in the table, or it is not."""
    pending = index.pending()
    # Read after the pending transactions: a writer that is dead by then commits nothing more to the table.
    committed = {commit.get("rli.transaction"): commit["version"] for commit in DeltaTable(TABLE).history()}
    for transaction in pending:
        if transaction.id in committed:
            transaction.commit({"delta.version": str(committed[transaction.id])})
        elif transaction.writer_is_dead:
            transaction.abort()


def rebuild(table: DeltaTable) -> None:
    """Make the index again from the table's files, such as after another tool has changed rows."""
    with rli.open_index(INDEX) as old:
        old.drop()
    with rli.create_index(INDEX) as index, index.begin() as txn:
        for rows in table.to_pyarrow_dataset().to_batches(columns=["id", "city"]):
            places = [rows["id"], rows["city"], pa.repeat("-", len(rows))]
            txn.stage(pa.table(places, names=["record_key", "partition_path", "file_id"]))
        txn.commit({"delta.version": str(table.version())})


def main() -> None:
    """Create the table, write twice, and make the index again after a change that bypassed it."""
    trips = pa.table({"id": ["a", "b", "c"], "city": ["Rome", "Oslo", "Rome"], "fare": [9.5, 12.0, 4.0]})
    write_deltalake(TABLE, trips.slice(0, 0), partition_by=["city"])
    rli.create_index(INDEX).close()
    upsert(trips)
    # b moves from Oslo to Bern, d is new.
    table = upsert(pa.table({"id": ["b", "d"], "city": ["Bern", "Rome"], "fare": [8.0, 7.5]}))
    print(table.to_pyarrow_table().sort_by("id").to_pydict())

    table.delete("id = 'a'")
    with rli.open_index(INDEX) as index:
        last = index.last_commit(having="delta.version")
        print("index:", last and last.metadata["delta.version"], "table:", table.version())
    rebuild(table)
    with rli.open_index(INDEX) as index:
        print(index.lookup(["a", "b"])["partition_path"].to_pylist())


if __name__ == "__main__":
    main()
