"""Content of indexings on the timeline: requested (``HoodieIndexPlan``) and completed (``HoodieIndexCommitMetadata``).

Hudi declares both in ``hudi-common/src/main/avro``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, read_record, write_record
from rli.hudi.timeline.schema_parts import STRING, VERSION, array_of, map_of, optional, record

_FORMAT_VERSION: Final = 1

_PARTITION: Final = record(
    "HoodieIndexPartitionInfo",
    VERSION,
    optional("metadataPartitionPath", STRING),
    optional("indexUptoInstant", STRING),
    optional("extraMetadata", map_of(STRING)),
)
_COMPLETED: Final = record(
    "HoodieIndexCommitMetadata",
    VERSION,
    optional("operationType", STRING),
    optional("indexPartitionInfos", array_of(_PARTITION)),
)


@dataclass(frozen=True, slots=True)
class IndexingPlan:
    """The partitions of the metadata table that an indexing builds.

    Attributes:
        partitions: name → the last instant of the table that its build begins with.
    """

    partitions: dict[str, str]

    @classmethod
    def from_avro(cls, content: bytes, file_name: str) -> Self:
        """Read a requested indexing.

        Raises:
            CorruptTableError: the content is no such plan; names the file.
        """
        try:
            infos = read_record(content)["indexPartitionInfos"] or ()
            return cls({str(info["metadataPartitionPath"]): str(info["indexUptoInstant"]) for info in infos})
        except MALFORMED as error:
            raise CorruptTableError(
                f"a requested indexing cannot be read: file={file_name} ({type(error).__name__}: {error})",
                remedy="restore the file from a backup; or, if no indexer works by it, delete it and the inflight file of its "
                "instant, or remove the whole metadata table, and the plan with it: rli metadata disable TABLE",
            ) from error

    def completed(self) -> bytes:
        """The content of the completed instant."""
        infos = [
            {
                "version": _FORMAT_VERSION,
                "metadataPartitionPath": name,
                "indexUptoInstant": instant,
                "extraMetadata": {},
            }
            for name, instant in self.partitions.items()
        ]
        return write_record(
            _COMPLETED, {"version": _FORMAT_VERSION, "operationType": None, "indexPartitionInfos": infos}
        )
