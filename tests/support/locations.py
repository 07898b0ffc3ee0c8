"""Locations of record keys in the tests' own terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rli.index.record.alone.transaction import IndexTransaction
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId


def locations(places: Mapping[str, FileGroupId]) -> pa.Table:
    """What ``IndexTransaction.stage`` takes."""
    columns = {
        "record_key": list(places),
        "partition_path": [group.partition_path for group in places.values()],
        "file_id": [group.file_id for group in places.values()],
    }
    return pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns]))


def places_in(found: pa.Table) -> list[FileGroupId | None]:
    """The places in a look-up's or a tag's answer, None where absent."""
    assert found.column_names == ["record_key", "partition_path", "file_id", "instant_time"]
    places: list[FileGroupId | None] = []
    for _, partition_path, file_id, instant in zip(*(column.to_pylist() for column in found.columns), strict=True):
        assert (partition_path is None) == (file_id is None) == (instant is None)
        places.append(None if file_id is None else FileGroupId(partition_path, file_id))
    return places


def places_of(where: StoredIndex | IndexTransaction, keys: Sequence[str]) -> dict[str, FileGroupId]:
    """The places of those keys that have one."""
    found = where.lookup(keys) if isinstance(where, StoredIndex) else where.tag(keys)
    assert found.column("record_key").to_pylist() == list(keys)
    return {key: place for key, place in zip(keys, places_in(found), strict=True) if place is not None}


def commit_places(index: StoredIndex, places: Mapping[str, FileGroupId]) -> str:
    """Commit the places in a transaction of their own; its instant."""
    with index.begin() as transaction:
        transaction.stage(locations(places))
        transaction.commit()
    return transaction.instant


def leftover_chunks(index: StoredIndex) -> list[str]:
    """The names of staged chunks, without those of the newest small transactions, which stay for others to check."""
    log = index.log.refresh()
    newest = log.records_after(log.head - index.limits.transactions_kept)
    kept = tuple(f"stage/{record.writer}/" for record in newest if record.staged.keeps_chunks)
    return [name for name, _ in index.store.scan_control("stage/") if not name.startswith(kept)]
