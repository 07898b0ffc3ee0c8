"""Tables with a metadata table, written by Apache Hudi: tests/data/hudi-metadata (see the README there)."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Final

from rli import Table
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.properties import load_properties
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline, load_timeline
from rli.metadata_table.verify import Difference, Verification
from rli.storage import Storage
from rli.table.table import opened_table
from rli.view.definition import load_definition
from rli.view.file_listing import FolderListing
from rli.view.snapshot import Snapshot
from rli.view.table_metadata import TableMetadata

ARCHIVES: Final = Path(__file__).parent.parent / "data" / "hudi-metadata"
"""Where their archives are."""

METADATA_TABLES: Final = ("v9", "v8", "v6", "v6_by_0.15")
"""Names of the tables."""


def unpack_metadata_table(name: str, folder: Path) -> Path:
    """Unpack one table below a folder; returns the table's folder."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    (table,) = folder.iterdir()
    return table


def metadata_reader(table: Path) -> MetadataTableReader:
    """A reader of the metadata table as the table is now."""
    storage = Storage(str(table))
    properties = load_properties(storage)
    timeline = load_timeline(storage, TimelineLayout.of(properties.layout_version, properties.timeline_path))
    return MetadataTableReader(storage, timeline, properties)


def differences(table: Path) -> list[Difference]:
    """What the metadata table of a table says otherwise than its files."""
    definition = load_definition(Storage(str(table)))
    snapshot = Snapshot.now(definition)
    reader = MetadataTableReader(definition.storage, snapshot.timeline, definition.properties)
    return [*Verification(snapshot, reader).differences()]


def state_before_later_commits(table: Table, timeline: Timeline) -> Snapshot:
    """The state that a reader has whose process was paused behind its look at the timeline."""
    now = opened_table(table).definition.reloaded()
    metadata = TableMetadata(now, timeline, now.properties.metadata_partitions)
    return Snapshot(now, timeline, FolderListing(now.storage), metadata)
