"""Properties of the metadata table itself, which Hudi's writers and readers open as a table."""

from __future__ import annotations

from typing import Final

from rli.hudi.properties import Key, TableProperties

_OF_ALL: Final = {
    Key.TYPE: "MERGE_ON_READ",
    Key.RECORD_KEY_FIELDS: "key",
    Key.POPULATE_META_FIELDS: "false",
    Key.BASE_FILE_FORMAT: "HFILE",
    Key.DROP_PARTITION_COLUMNS: "false",
    "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
}

_OF_LAYOUT_1: Final = {
    Key.LAYOUT_VERSION: "1",
    Key.KEY_GENERATOR_CLASS: "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
    "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    Key.ARCHIVE_FOLDER: "archived",
}

_OF_LAYOUT_2: Final = {
    Key.LAYOUT_VERSION: "2",
    Key.KEY_GENERATOR_TYPE: "HOODIE_TABLE_METADATA",
    Key.MERGE_MODE: "CUSTOM",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    Key.ARCHIVE_FOLDER: "history",
}


def metadata_table_properties(properties: TableProperties) -> dict[str, str]:
    """The entries for the metadata table of a table, as the releases of Hudi that write its version make them.

    Args:
        properties: of the table.

    Example:
        >>> from rli.hudi.properties import new_table_properties
        >>> table = new_table_properties("trips", record_key_fields=("id",))
        >>> metadata_table_properties(table)["hoodie.table.name"]
        'trips_metadata'
    """
    version = str(properties.version)
    raw = {Key.NAME: f"{properties.name}_metadata", Key.VERSION: version, **_OF_ALL}
    if properties.layout_version == 1:
        raw |= _OF_LAYOUT_1
    else:
        # The folders are those of the table, which readers take for granted.
        history = properties.raw.get(Key.HISTORY_PATH) or "history"
        raw |= {Key.TIMELINE_PATH: properties.timeline_path, Key.HISTORY_PATH: history, **_OF_LAYOUT_2}
        raw[Key.INITIAL_VERSION] = version
    # The change computes the checksum.
    return dict(TableProperties.from_raw(raw).changed({}).raw)
