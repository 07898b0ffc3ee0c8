"""Content of a requested clustering (``HoodieRequestedReplaceMetadata``)."""

from __future__ import annotations

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record
from rli.model import FileGroupId


def groups_to_replace(content: bytes, file_name: str) -> frozenset[FileGroupId]:
    """The file groups that a requested replacement will rewrite: those of a clustering; an overwrite has no plan.

    Raises:
        CorruptTableError: the content is no such plan; names the file.
    """
    if not content:
        return frozenset()
    try:
        plan = read_record(content)["clusteringPlan"]
        slices = [one for group in (plan or {}).get("inputGroups") or () for one in group["slices"] or ()]
        return frozenset(FileGroupId(one["partitionPath"], one["fileId"]) for one in slices)
    except MALFORMED as error:
        raise CorruptTableError(
            f"the plan of a pending instant cannot be read: file={file_name} ({error})",
            remedy="let Hudi roll the instant back, or restore the file from a backup",
        ) from error
