"""Delete the records of a person on request, and prove it: which files still hold them, and since when none does.

Run it in an empty folder: python deletion_receipt.py
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import rli


def holders(table: rli.Table, keys: list[str]) -> list[str]:
    """All Parquet files of the table, old versions and journals too, that hold any of the keys."""
    wanted = pa.array(keys)
    found = []
    for path in sorted(Path(table.location).rglob("*.parquet")):
        columns = [name for name in pq.read_schema(path).names if name in {"_hoodie_record_key", "record_key"}]
        rows = pq.read_table(path, columns=columns)
        if any(pc.any(pc.is_in(column.cast(pa.string()), value_set=wanted)).as_py() for column in rows.columns):
            found.append(str(path.relative_to(table.location)))
    return found


def delete(table: rli.Table, condition: str) -> rli.Receipt:
    """Delete the records, and say what is left of them: a receipt. The request's number stays with the commit."""
    done = table.delete_where(condition, metadata={"request": "4711"})
    if done.receipt is None:
        raise LookupError(f"no record: {condition}")
    return done.receipt


def main() -> None:
    """Delete a record that two commits have written; old versions of its file hold it until a clean removes them."""
    table = rli.create_table("people", record_key="id", maintenance=None)
    table.upsert(pa.table({"id": ["ann", "bob"], "city": ["Rome", "Oslo"]}))
    table.upsert(pa.table({"id": ["ann"], "city": ["Bern"]}))

    receipt = delete(table, "id = 'ann'")
    print("deleted:", receipt.keys, "readable:", "ann" in table.read()["id"].to_pylist())
    print("old versions in the receipt:", len(receipt.files), "files that hold the key:", len(holders(table, ["ann"])))

    # A clean keeps what readers of the kept commits need, and the version before. So a later commit must follow the delete.
    table.upsert(pa.table({"id": ["cid"], "city": ["Rome"]}))
    cleaned = table.clean(keep_commits=1)
    is_gone = cleaned.earliest_kept is not None and cleaned.earliest_kept > receipt.held_until
    print("gone, by the receipt:", is_gone, "files that hold the key:", holders(table, ["ann"]))


if __name__ == "__main__":
    main()
