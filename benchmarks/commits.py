"""Many commits: what a commit, a look-up and opening a table cost after thousands of them, with default maintenance."""

from __future__ import annotations

import posixpath
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

import rli
from benchmarks.measuring import Outcome
from rli.table.table import opened_table
from tests.support.tables import turn_into_version_9

_YOUNG: Final = 100
"""Commits of the table that others are compared with."""
_PARTITIONS: Final = 25
_INSERTED: Final = 20
"""Records of a commit; as many are updated, or deleted."""
_MEASURED: Final = 60
"""Commits: among them three cleans, two clusterings and two archives."""
_REPEATED: Final = 21
_GOAL: Final = 1.3


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Commit again and again; now and then compare the table with a new one of a hundred commits."""
    return many_commits(folder, (_YOUNG, 300) if quick else (_YOUNG, 1_000, 3_000, 10_000))


def many_commits(
    folder: Path, numbers: Sequence[int], index: str | None = None, metadata: Sequence[str] = ()
) -> list[Outcome]:
    """CPU time of commits, look-ups and openings, and files below ``.hoodie``.

    Args:
        folder: for the tables.
        numbers: of commits, ascending; from the second one on, each is compared with a table of ``_YOUNG`` commits.
        index: URL of the index, to which a name is added; by default each table has its own in LMDB.
        metadata: partitions of Hudi's metadata table that each commit keeps, in tables of version 9; none by default.
    """
    found: list[list[Outcome]] = []
    with _Stream(folder / "old", index and f"{index}old", metadata) as old:
        for number in numbers[1:]:
            old.commit(until=number)
            with _Stream(folder / f"young-{number}", index and f"{index}young{number}", metadata) as young:
                young.commit(until=numbers[0])
                found.append(_compared(young, old))
    return [outcome for alike in zip(*found, strict=True) for outcome in alike]


def _compared(young: _Stream, old: _Stream) -> list[Outcome]:
    """The old table over the young one. Both take turns, commit by commit, so that other load slows both."""
    baseline = f"{young.count:,} commits; here {old.count:,}"
    pairs = [(old.cpu_of_commit(), young.cpu_of_commit()) for _ in range(_MEASURED)]
    mean, young_mean = (statistics.fmean(times) for times in zip(*pairs, strict=True))
    look_up, young_look_up = _medians(old.look_up, young.look_up)
    opening, young_opening = _medians(old.open, young.open)
    files, young_files = old.files(), young.files()
    keeps = f"; keeps {', '.join(old.metadata)}" if old.metadata else ""
    about = (
        f"each commit inserts {_INSERTED} records and updates {_INSERTED}, or deletes as many, in one of {_PARTITIONS} "
        f"partitions; default maintenance{keeps}"
    )
    figures = {
        "CPU of a commit, after more commits": (
            mean / young_mean,
            f"{1e3 * mean:.1f} ms, maintenance included; {about}",
        ),
        "CPU of a look-up, after more commits": (
            look_up / young_look_up,
            f"{1e3 * look_up:.2f} ms for 40 keys; {about}",
        ),
        "CPU of opening a table, after more commits": (
            opening / young_opening,
            f"{1e3 * opening:.1f} ms, with a look-up; {about}",
        ),
        "files in .hoodie, after more commits": (files / young_files, f"{files:,} files; {about}"),
    }
    return [
        Outcome(name, baseline, ratio, None if name.startswith("files") else _GOAL, "lower", details)
        for name, (ratio, details) in figures.items()
    ]


def _medians(ours: Callable[[], object], baseline: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU of two ways, in turns; the median of each, after one round that does not count."""
    rounds = [(_cpu(ours), _cpu(baseline)) for _ in range(_REPEATED + 1)]
    first, second = zip(*rounds[1:], strict=True)
    return statistics.median(first), statistics.median(second)


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@dataclass
class _Stream(AbstractContextManager["_Stream"]):
    """A table that is written again and again, and stays as large as it is: old records go as new ones come.

    Attributes:
        path: of the table.
        index: URL of its index; None for the default.
        metadata: partitions of its metadata table.
        count: how many commits it has.
    """

    path: Path
    index: str | None
    metadata: Sequence[str]
    count: int = 0

    def __post_init__(self) -> None:
        # Each commit that inserts opens a file group: there are small files to cluster.
        self.table = rli.create_table(
            self.path, record_key="id", partition_by="part", ordering="at", index=self.index, small_file_size=0
        )
        if self.metadata:
            turn_into_version_9(self.table)
            self.table.metadata.enable(self.metadata)

    def commit(self, until: int) -> None:
        while self.count < until:
            self._commit_next()

    def cpu_of_commit(self) -> float:
        """Seconds of CPU."""
        return _cpu(self._commit_next)

    def look_up(self) -> None:
        self.table.lookup(self._keys_around(self.count))

    def open(self) -> None:
        with rli.open_table(self.path) as table:
            table.lookup(self._keys_around(self.count))

    def files(self) -> int:
        """Below ``.hoodie``, the index excepted."""
        listed = opened_table(self.table).definition.storage.list_files(".hoodie", recursive=True)
        return sum(not file.path.startswith(posixpath.join(".hoodie", ".rli", "index")) for file in listed)

    def _commit_next(self) -> None:
        visit, part = divmod(self.count // 2, _PARTITIONS)
        if self.count % 2 == 0:
            known = _keys(part, visit - 1) if visit else []
            keys = [*_keys(part, visit), *known]
            self.table.upsert(
                pa.table({"id": keys, "part": [f"p{part}"] * len(keys), "at": [visit] * len(keys), "note": keys})
            )
        else:
            self.table.delete(_keys(part, max(visit - 1, 0)))
        self.count += 1

    def _keys_around(self, count: int) -> list[str]:
        visit, part = divmod(count // 2, _PARTITIONS)
        return [*_keys(part, visit - 1), *_keys(part, visit - 2)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.table.close()


def _keys(part: int, visit: int) -> list[str]:
    return [f"{part:03d}-{visit:06d}-{number:02d}" for number in range(_INSERTED)]
