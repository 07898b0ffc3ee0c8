"""What dead processes were about to bring into Hudi's metadata table is removed."""

from __future__ import annotations

from rli.publication.fence import Fence
from rli.publication.metadata_compaction import take_back_compaction
from rli.publication.metadata_partitions import take_back_partitions
from rli.view import paths


def drop_unfinished(fence: Fence) -> None:
    """Take back partitions that are not listed, and compactions that are not completed; may be repeated.

    Args:
        fence: of the caller, who holds the lease and brings nothing into the metadata table itself.
    """
    storage = fence.table.storage
    folders = storage.list_folders(paths.BIRTHS)
    if folders:
        # What was listed before is of no successor.
        fence.require_held()
    for folder in folders:
        # From here on nobody else can bring more into place.
        storage.delete_folder(paths.birth_files(folder))
        if (content := storage.read_bytes(paths.birth_plan(folder))) is not None:
            take_back_partitions(content, folder, fence)
        if (content := storage.read_bytes(paths.compaction_plan(folder))) is not None:
            take_back_compaction(content, folder, fence)
        storage.delete_folder(folder)
