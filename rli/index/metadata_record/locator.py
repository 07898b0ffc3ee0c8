"""Looking record keys up in the record index of the metadata table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import scoped_keys
from rli.errors import ConflictError, CorruptTableError, InstantNotFoundError
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.record_index import located_keys
from rli.index.locators import FoundLocations, Locator
from rli.index.metadata_record.opening import PARTITION, broken
from rli.index.table_files.locator import KeyColumnLocator
from rli.locations import LOCATION_SCHEMA, named_groups
from rli.model import Scope
from rli.telemetry import events
from rli.view.lost_files import require_files
from rli.view.snapshot import Snapshot
from rli.view.time_travel import is_whole_for

_SAMPLE: Final = 5


class MetadataLocator(Locator):
    """Looks keys up in the record index, and checks that the file groups of its entries are live.

    An entry may name a file group that is gone: releases of Hudi leave entries behind, of partitions that were dropped for
    example. Its key is sought in the table's files.

    Args:
        snapshot: the state of the table.
        scope: where a key is unique.
        reader: of the metadata table as of that state.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope, reader: MetadataTableReader) -> None:
        self._snapshot = snapshot
        self._scope = scope
        self._reader = reader

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        found = self._live(self._entries_of(record_keys, partition_paths))
        return FoundLocations(found, self._scope).locate(record_keys, partition_paths)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        return self._live(self._entries(lambda: [self._reader.lookup_everywhere(PARTITION, record_keys)]))

    def trace(self, stored: pa.Table) -> pa.Table:
        keys, paths = (stored.column(name).combine_chunks() for name in ("record_key", "partition_path"))
        found = FoundLocations(self._entries_of(keys, paths), self._scope).locate(keys, paths)
        same = [pc.equal(found.column(name), stored.column(name)) for name in ("partition_path", "file_id")]
        # A record whose entry is missing or wrong is an error of the index, which a verification tells.
        times = pc.if_else(
            pc.fill_null(pc.and_(*same), False), found.column("instant_time"), stored.column("instant_time")
        )
        return pa.table([*stored.columns[:3], times], schema=LOCATION_SCHEMA)

    def _entries_of(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        """The entries of some records, in any order."""
        if self._scope is Scope.GLOBAL:
            return self._entries(lambda: [self._reader.lookup(PARTITION, record_keys)])
        owned = (
            (path, record_keys.filter(pc.equal(partition_paths, path))) for path in partition_paths.unique().to_pylist()
        )
        return self._entries(lambda: (self._reader.lookup(PARTITION, keys, path) for path, keys in owned))

    def _entries(self, look_up: Callable[[], Iterable[pa.RecordBatch]]) -> pa.Table:
        table = self._snapshot.table
        try:
            batches = [located_keys(cells) for cells in look_up()]
        except InstantNotFoundError as error:
            raise ConflictError(
                f"others compacted the metadata table while keys were looked up: table={table.location} ({error})",
                remedy="call again",
            ) from error
        except CorruptTableError as error:
            raise broken(table, error) from error
        return pa.concat_tables([LOCATION_SCHEMA.empty_table(), *map(as_locations, batches)])

    def _live(self, entries: pa.Table) -> pa.Table:
        """The locations of entries whose file groups the state has; the keys of stale entries are sought in the files."""
        columns = (entries.column(name).combine_chunks() for name in ("partition_path", "file_id"))
        named = named_groups(*columns)
        live = self._snapshot.slices.of_groups([group for group in named.groups if group is not None])
        is_live = np.array([group in live for group in named.groups], bool)[named.codes]
        if is_live.all():
            return entries
        stale = entries.filter(pa.array(~is_live))
        return pa.concat_tables([entries.filter(pa.array(is_live)), self._in_files(stale)])

    def _in_files(self, stale: pa.Table) -> pa.Table:
        """The locations of records whose entries name file groups that are gone."""
        snapshot, keys = self._snapshot, pc.unique(stale.column("record_key"))
        events.INDEX_STALE.log(
            table=snapshot.table.location,
            index=snapshot.table.index_url,
            keys=stale.num_rows,
            sample=keys.slice(0, _SAMPLE).to_pylist(),
        )
        files = KeyColumnLocator(snapshot, self._scope)
        found = files.probe(files.candidates(pc.unique(stale.column("partition_path")).to_pylist()), keys)
        require_files(snapshot, partition_paths=snapshot.slices.listed)
        if not is_whole_for(snapshot):
            raise ConflictError(
                f"others changed the table while keys were sought in its files: table={snapshot.table.location}",
                remedy="call again",
            )
        if self._scope is Scope.GLOBAL:
            return found
        wanted, names = (_scoped(table) for table in (stale, found))
        return found.filter(pc.is_in(names, value_set=wanted))


def as_locations(located: pa.RecordBatch) -> pa.Table:
    """Entries of ``rli.hudi.metadata.record_index.LOCATED`` with ``LOCATION_SCHEMA``."""
    columns = [located["record_key"], *(located[name].cast(pa.string()) for name in located.schema.names[1:])]
    return pa.table(columns, schema=LOCATION_SCHEMA)


def _scoped(locations: pa.Table) -> pa.ChunkedArray:
    return scoped_keys.joined(locations.column("partition_path"), locations.column("record_key"))
