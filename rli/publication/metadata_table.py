"""Hudi's metadata table, which rli does not write.

Hudi's readers take the files that the metadata table lists for all there are. A commit of rli that is not in it
would be invisible to them, and lost at Hudi's next write. So it is switched off before a commit is published; Hudi
builds it again at its next write.
"""

from __future__ import annotations

import posixpath
from typing import Final

from rli.hudi.properties import Key, TableProperties, save_properties
from rli.storage import Storage

_FOLDER: Final = ".hoodie/metadata"


def switch_off_metadata_table(storage: Storage, properties: TableProperties) -> None:
    """Make readers list files instead. The caller holds the lease."""
    keys = (Key.METADATA_PARTITIONS, Key.METADATA_PARTITIONS_INFLIGHT)
    # The properties first: they make readers use the metadata table. A crash before the folder goes leaves a folder
    # that nobody reads.
    if any(properties.raw.get(key) for key in keys):
        save_properties(storage, properties.changed(dict.fromkeys(keys)))
    if storage.exists(_FOLDER):
        storage.delete_folder(_FOLDER)
        storage.flush(folders=[posixpath.dirname(_FOLDER)])
