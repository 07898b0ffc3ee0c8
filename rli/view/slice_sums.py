"""Sums of a table's live file slices, which each commit of rli keeps: a listing is compared with them.

A listing tells which files are there, and not which should be there. Where the newest file of a file group is lost, the
version before it counts, and nothing looks wrong. The sums show the loss to a reader that has read the last commit and no
other one. They cover the whole table, and each of the partitions that were written last.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from rli.json_text import parse_json
from rli.model import FileGroupId

_VERSION: Final = 1

_MOST_OTHERS: Final = 128
"""Partitions that a commit names beside those that it writes. A commit that begins the sums names all partitions."""


@dataclass(frozen=True, slots=True)
class SliceSum:
    """A sum over the files of file slices. The sums of two sets of files that differ are equal by chance alone: once in 2³².

    Attributes:
        count: of the files.
        total: of the CRC-32 of ``<partition path>/<file id> <part>`` in UTF-8, where the part (``FileSlice.parts``) is the
            base file's instant, or a log file's name.
    """

    count: int = 0
    total: int = 0

    @classmethod
    def of(cls, files: Iterable[tuple[FileGroupId, str]]) -> Self:
        """The sum over some files, each given by its file group and its part."""
        sums = [zlib.crc32(f"{group[0]}/{group[1]} {part}".encode("utf-8", "surrogatepass")) for group, part in files]
        return cls(len(sums), sum(sums))

    def __add__(self, other: SliceSum) -> SliceSum:
        return SliceSum(self.count + other.count, self.total + other.total)

    def __sub__(self, other: SliceSum) -> SliceSum:
        return SliceSum(self.count - other.count, self.total - other.total)


def sums_by_partition(files: Iterable[tuple[FileGroupId, str]]) -> dict[str, SliceSum]:
    """The sum of each partition that some files are in, each given by its file group and its part."""
    found: dict[str, list[tuple[FileGroupId, str]]] = {}
    for group, part in files:
        found.setdefault(group.partition_path, []).append((group, part))
    return {partition_path: SliceSum.of(own) for partition_path, own in found.items()}


@dataclass(frozen=True, slots=True, order=True)
class WrittenAt:
    """The last commit that wrote into a partition, or began the sums: its own sums name the partition.

    Attributes:
        number: of the commit, in the order of publication.
        instant: of the commit.
    """

    number: int
    instant: str


@dataclass(frozen=True, slots=True)
class SliceSums:
    """The sums of the live slices right after a commit.

    Attributes:
        instant: of the commit.
        number: greater than that of every commit published before; 0 for sums that no commit keeps yet.
        whole: of the table.
        partitions: partition path → its sum, and the last commit that wrote into it.
        others: the last commit that wrote into a partition that is not named; None where all are named.
        pending: the writes that were pending at the publication: those that complete come after this commit, whatever
            their instants.
        later: the completed writes with greater instants, which this commit counts in.
    """

    instant: str
    number: int
    whole: SliceSum
    partitions: Mapping[str, tuple[SliceSum, WrittenAt]] = field(default_factory=dict)
    others: WrittenAt | None = None
    pending: tuple[str, ...] = ()
    later: tuple[str, ...] = ()

    def after(self, instant: str, whole: SliceSum, written: Mapping[str, SliceSum]) -> SliceSums:
        """The sums after the next commit, which writes into some partitions; without ``pending`` and ``later``.

        Args:
            instant: of the commit.
            whole: of the table after it.
            written: partition path → its sum after the commit.
        """
        at = WrittenAt(self.number + 1, instant)
        if not self.number:
            everything = {**{path: found for path, (found, _) in self.partitions.items()}, **written}
            return SliceSums(instant, at.number, whole, {path: (found, at) for path, found in everything.items()})
        others = sorted(
            (path for path in self.partitions if path not in written),
            key=lambda path: self.partitions[path][1],
            reverse=True,
        )
        kept, left_out = others[:_MOST_OTHERS], others[_MOST_OTHERS:]
        unnamed = [self.partitions[path][1] for path in left_out] + ([self.others] if self.others else [])
        return SliceSums(
            instant,
            at.number,
            whole,
            {
                **{path: (found, at) for path, found in written.items()},
                **{path: self.partitions[path] for path in kept},
            },
            max(unnamed, default=None),
        )

    def to_string(self) -> str:
        """As it is kept with a commit."""
        content = {
            "version": _VERSION,
            "instant": self.instant,
            "number": self.number,
            "count": self.whole.count,
            "total": self.whole.total,
            "partitions": {
                path: [found.count, found.total, at.number, at.instant] for path, (found, at) in self.partitions.items()
            },
            "others": None if self.others is None else [self.others.number, self.others.instant],
            "pending": self.pending,
            "later": self.later,
        }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_string(cls, text: str) -> SliceSums | None:
        """Read what a commit keeps; None where it is damaged, or of a later version."""
        # The sums save requests. Without them, the commits themselves tell which files should be there.
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            content: dict[str, Any] = parse_json(text)
            if content["version"] == _VERSION:
                return cls(
                    instant=str(content["instant"]),
                    number=int(content["number"]),
                    whole=SliceSum(int(content["count"]), int(content["total"])),
                    partitions={
                        path: (SliceSum(int(count), int(total)), WrittenAt(int(number), str(time)))
                        for path, (count, total, number, time) in content["partitions"].items()
                    },
                    others=None if content["others"] is None else WrittenAt(*content["others"]),
                    pending=_strings(content["pending"]),
                    later=_strings(content["later"]),
                )
        return None


def _strings(values: Collection[object]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)
