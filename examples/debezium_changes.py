"""Bring the changes of a database, as Debezium writes them, into a table, and from there to a consumer of its changes.

Run it in an empty folder: python debezium_changes.py
"""

import json
from collections.abc import Iterable

import pyarrow as pa

import rli


def apply(table: rli.Table, offset: int, messages: Iterable[str]) -> None:
    """Apply a batch of messages in one commit; a repeat of the call with one offset changes nothing."""
    events = pa.Table.from_pylist([json.loads(message)["payload"] for message in messages])
    done = table.merge(events, transaction=("debezium", offset))
    print(f"offset {offset}: {done.inserted=} {done.updated=} {done.moved=} {done.deleted=} {done.unchanged=}")


def consume(table: rli.Table, fares: dict[int, float], position: str | None) -> str:
    """Bring the fares up to date with all commits after a position; returns the new position."""
    changes = table.changes(since=position)
    for row in changes.read_all().to_pylist():
        if row["_change_type"] == "delete":
            del fares[row["id"]]
        else:
            fares[row["id"]] = row["fare"]
    return changes.schema.metadata[b"rli.position"].decode()


def message(op: str, lsn: int, before: dict[str, object] | None, after: dict[str, object] | None) -> str:
    """A message as Debezium writes it, without its schema."""
    return json.dumps({"payload": {"op": op, "before": before, "after": after, "source": {"lsn": lsn}}})


def main() -> None:
    """Apply a snapshot, then changes: an update that moves a row, a delete, an insert that is deleted at once."""
    table = rli.create_table("trips", record_key="id", partition_by="city", ordering="lsn")
    fares: dict[int, float] = {}
    rome, oslo = {"id": 1, "city": "Rome", "fare": 9.5}, {"id": 2, "city": "Oslo", "fare": 12.0}
    apply(table, 1, [message("r", 10, None, rome), message("r", 11, None, oslo)])
    position = consume(table, fares, None)
    moved, brief = {**rome, "city": "Bern", "fare": 10.5}, {"id": 3, "city": "Rome", "fare": 4.0}
    changes = [
        message("u", 12, rome, moved),
        message("d", 13, oslo, None),
        message("c", 14, None, brief),
        message("d", 15, brief, None),
    ]
    apply(table, 2, changes)
    apply(table, 2, changes)
    print(table.read().select(["id", "city", "fare"]).to_pylist())
    consume(table, fares, position)
    print("fares:", fares)


if __name__ == "__main__":
    main()
