"""Keep each event once, over all partitions: a repeated event that arrives a day later touches no file.

Run it in an empty folder: python deduplicate_events.py
"""

import pyarrow as pa

import rli


def ingest(table: rli.Table, offset: int, events: pa.Table) -> None:
    """Insert the events whose ids are new to the whole table. A repeat of the call with one offset changes nothing."""
    done = table.insert(events, transaction=("ingest", offset))
    print(f"offset {offset}: {done.inserted} new, {done.unchanged} known, {done.files_rewritten} files rewritten")


def main() -> None:
    """Ingest two days of events, of which some are sent twice."""
    table = rli.create_table("events", record_key="event_id", partition_by="day")
    first = pa.table({"event_id": ["e1", "e2", "e2"], "day": ["2026-01-01"] * 3, "amount": [5, 7, 7]})
    # A device was offline: it sends e1 again with the day of the upload.
    second = pa.table({"event_id": ["e1", "e3"], "day": ["2026-01-02"] * 2, "amount": [5, 9]})
    ingest(table, 1, first)
    ingest(table, 2, second)
    # The consumer died before it had noted the offset.
    ingest(table, 2, second)
    events = table.read().select(["event_id", "day", "amount"]).sort_by("event_id")
    print(events.to_pylist())


if __name__ == "__main__":
    main()
