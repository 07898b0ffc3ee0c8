"""How a compaction of Hudi's metadata table becomes visible, whatever becomes of the process.

Its base files and the pending states of its instant wait in a folder of their own. Under the lease they are moved into the
metadata table. Readers pass over base files of an instant that is not completed. The completed instant comes last, by the fence.
"""

from __future__ import annotations

import posixpath
from typing import Literal

from pydantic import BaseModel, ValidationError

from rli.errors import CorruptTableError
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.publication.fence import Fence
from rli.publication.metadata_files import bring_into_place, flush_waiting
from rli.view import paths


class PlannedCompaction(BaseModel):
    """What is about to come into the metadata table, as a file beside its files says it.

    Attributes:
        version: of the format.
        files: to bring into the metadata table's folder, in this order.
        completed: file of the completed instant, in the metadata table's folder.
    """

    version: Literal[1] = 1
    files: tuple[str, ...]
    completed: str


def publish_compaction(folder: str, plan: PlannedCompaction, content: bytes, fence: Fence) -> None:
    """Bring a compaction into the metadata table, and complete it. The caller holds the lease.

    Args:
        folder: of ``paths.birth_folder``; the files of the plan are below it.
        plan: what is to come.
        content: of the completed instant.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over; it has removed what was begun.
    """
    storage = fence.table.storage
    storage.write_bytes(paths.compaction_plan(folder), plan.model_dump_json().encode())
    storage.flush(folders=[folder])
    source = paths.birth_files(folder)
    flush_waiting(source, plan.files, fence)
    fence.require_held()
    bring_into_place(source, plan.files, fence)
    fence.create(posixpath.join(METADATA_FOLDER, plan.completed), content)
    storage.delete_folder(folder)


def take_back_compaction(content: bytes, folder: str, fence: Fence) -> None:
    """Remove what a dead process has brought into the metadata table, unless it completed its compaction.

    Args:
        content: of the plan's file.
        folder: that the plan is in; no more files of it can be brought into place.
        fence: of the caller, who holds the lease.

    Raises:
        CorruptTableError: the plan is damaged.
    """
    storage = fence.table.storage
    try:
        plan = PlannedCompaction.model_validate_json(content)
    except ValidationError as error:
        raise CorruptTableError(
            f"the plan of a compaction of the metadata table is damaged: file={paths.compaction_plan(folder)}",
            remedy=f"delete the folder {folder}, then run: rli metadata compact TABLE",
        ) from error
    if storage.exists(posixpath.join(METADATA_FOLDER, plan.completed)):
        return
    # The states of the instant last: while it is pending, its base files cannot pass for archived ones.
    for file in plan.files:
        storage.delete_files([posixpath.join(METADATA_FOLDER, file)])
    storage.flush(folders={posixpath.dirname(posixpath.join(METADATA_FOLDER, file)) for file in plan.files})


def remove_superseded(files: list[str], fence: Fence) -> None:
    """Remove files of older slices. The caller holds the lease.

    Args:
        files: paths in the table.
        fence: of the caller.
    """
    if files:
        # What was listed before is of no successor.
        fence.require_held()
        fence.table.storage.discard_files(files)
