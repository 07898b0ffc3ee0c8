"""The file groups of clusterings and compactions that are planned (``HoodieRequestedReplaceMetadata``, ``HoodieCompactionPlan``)."""

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
        raise _corrupt(file_name, error) from error


def groups_to_compact(content: bytes, file_name: str) -> frozenset[FileGroupId]:
    """The file groups that a requested compaction will rewrite.

    Raises:
        CorruptTableError: the content is no such plan; names the file.
    """
    if not content:
        return frozenset()
    try:
        operations = read_record(content)["operations"] or ()
        return frozenset(FileGroupId(one["partitionPath"], one["fileId"]) for one in operations)
    except MALFORMED as error:
        raise _corrupt(file_name, error) from error


def _corrupt(file_name: str, error: Exception) -> CorruptTableError:
    return CorruptTableError(
        f"the plan of a pending instant cannot be read: file={file_name} ({error})",
        remedy="let Hudi roll the instant back, or restore the file from a backup",
    )
