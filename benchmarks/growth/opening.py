"""Memory that opening an index takes, by the number of its commits: ``python -m benchmarks.growth.opening [COMMITS...]``.

Prints MiB for each number of commits (100, 10,000 and 100,000), each measured in a process that does nothing else: for
opening the index and reading its commit log, and for finding out then that a file group is new.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import UUID

from benchmarks.measuring import kibibytes, process_status
from rli.index.record.log.record import LogRecord, record_name
from rli.model import FileGroupId
from tests.support.stored_indexes import create_index, open_index

_COMMITS: Final = (100, 10_000, 100_000)
_MIB: Final = 1 << 20


def fill(url: str, commits: int) -> None:
    """Make an index with so many commits, each of one new file group, of which all but the last are written at once."""
    with create_index(url) as index:
        for number in range(commits - 1):
            record = _record(number)
            index.store.compare_and_set(record_name(record.first_sequence), None, record.to_json())
        index.log.append(index.log.refresh(), _record(commits - 1))


def memory_of_opening(url: str) -> tuple[float, float]:
    """MiB for opening an index and reading its log, and for the first number of a new file group after that."""
    with create_index("memory:warm"):
        before = _peak()
    with open_index(url) as index:
        log = index.log.refresh()
        opened = _peak()
        assert log.dictionary.number_of(FileGroupId("p", "new-0")) is None
    return (opened - before) / _MIB, (_peak() - opened) / _MIB


def main(commits: list[int], folder: Path) -> None:
    """Print a line for each number of commits."""
    print(f"{'commits':>10}{'open':>14}{'new group':>14}")
    for number in commits:
        url = f"lmdb://{folder / str(number)}"
        fill(url, number)
        measured = subprocess.run(  # noqa: S603  (this module)
            [sys.executable, "-m", __spec__.name, "--open", url], check=True, capture_output=True, text=True
        )
        opened, numbered = map(float, measured.stdout.split())
        print(f"{number:>10,}{opened:>10.1f} MiB{numbered:>10.1f} MiB")


def _record(number: int) -> LogRecord:
    instant = f"2026{number:013d}"
    group = FileGroupId(f"city={number % 100}", f"{UUID(int=number * 2**64 + 7919)}-0")
    return LogRecord(
        instant=instant,
        action="commit",
        writer=instant,
        located_at=(instant,),
        file_groups=(group,),
        first_sequence=number + 1,
        first_file_group=number,
    )


def _peak() -> int:
    return kibibytes(process_status(Path("/proc/self"))["VmHWM"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--open"]:
        print(*memory_of_opening(sys.argv[2]))
    else:
        with TemporaryDirectory() as made:
            main([int(number) for number in sys.argv[1:]] or list(_COMMITS), Path(made))
