"""Bring the changes of a database, as Debezium writes them, into a table.

Run it in an empty folder: python debezium_changes.py
"""

import json
from collections.abc import Iterable

import pyarrow as pa

import rli

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("_lsn", pa.int64())])


def apply(table: rli.Table, offset: int, messages: Iterable[str]) -> None:
    """Apply a batch of messages; a repeat of the call with one offset changes nothing.

    Debezium's messages of one key come in order in one Kafka partition. So the last one of a key in the batch counts.
    """
    newest: dict[int, dict[str, object]] = {}
    for message in messages:
        payload = json.loads(message)["payload"]
        row = payload["after"] or payload["before"]
        newest[row["id"]] = {**row, "_lsn": payload["source"]["lsn"], "deleted": payload["op"] == "d"}
    kept = pa.Table.from_pylist([row for row in newest.values() if not row["deleted"]], SCHEMA)
    gone = [str(key) for key, row in newest.items() if row["deleted"]]
    # Two commits, each of which is made once. A reader between them sees the deleted rows a moment longer.
    upserted = table.upsert(kept, transaction=("debezium upserts", offset))
    deleted = table.delete(gone, transaction=("debezium deletes", offset))
    print(f"offset {offset}: {upserted.inserted=} {upserted.updated=} {upserted.moved=} {deleted.deleted=}")


def message(op: str, lsn: int, before: dict[str, object] | None, after: dict[str, object] | None) -> str:
    """A message as Debezium writes it, without the parts that are not read here."""
    return json.dumps({"payload": {"op": op, "before": before, "after": after, "source": {"lsn": lsn}}})


def main() -> None:
    """Apply a snapshot, then changes: an update that moves a row, a delete, an insert that is deleted at once."""
    table = rli.create_table("trips", record_key="id", partition_by="city", ordering="_lsn")
    rome, oslo = {"id": 1, "city": "Rome", "fare": 9.5}, {"id": 2, "city": "Oslo", "fare": 12.0}
    apply(table, 1, [message("r", 10, None, rome), message("r", 10, None, oslo)])
    moved, brief = {**rome, "city": "Bern"}, {"id": 3, "city": "Rome", "fare": 4.0}
    changes = [
        message("u", 11, rome, moved),
        message("d", 12, oslo, None),
        message("c", 13, None, brief),
        message("d", 14, brief, None),
    ]
    apply(table, 2, changes)
    apply(table, 2, changes)
    print(table.read().select(["id", "city", "fare"]).to_pylist())


if __name__ == "__main__":
    main()
