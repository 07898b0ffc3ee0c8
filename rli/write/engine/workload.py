"""What tagged rows will do, in counts: from these the operation plans, and no engine has to show its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rli.model import FileGroupId, WriteCounts


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """Counts of tagged rows, by which a write is planned.

    Attributes:
        inserted: partition path → new record keys, and those of which their file group decides whether they are new.
        changed: file group → records that are updated in it or deleted from it.
        leaving: file group → records stored in it that came with another partition, late ones included.
        arriving: partition path → moving records that it gains; empty until late ones are left out.
        left_out: record keys that change nothing.
        duplicates: rows of the request that are not among these, because another row has their key.
    """

    inserted: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[FileGroupId, int] = field(default_factory=dict)
    leaving: Mapping[FileGroupId, int] = field(default_factory=dict)
    arriving: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    duplicates: int = 0

    @property
    def origins(self) -> frozenset[FileGroupId]:
        """The file groups that hold records of the write."""
        return frozenset(self.changed) | frozenset(self.leaving)

    @property
    def apart(self) -> WriteCounts:
        """What became of the rows of the request that are not in the profile's file groups and partitions."""
        return WriteCounts(unchanged=self.left_out, duplicates=self.duplicates)

    @property
    def new(self) -> dict[str, int]:
        """Partition path → records that are placed in it: inserted, moved, or undecided ones."""
        gained = dict(self.inserted)
        for partition_path, count in self.arriving.items():
            gained[partition_path] = gained.get(partition_path, 0) + count
        return gained
