"""Every file of the timeline is written and removed by one room, whatever changes the table."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import dropwhile
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from rli import create_table
from rli.storage import Storage
from rli.table.table import opened_table
from tests.support.operations import run_every_operation

BELOW_THE_DOOR = ("rli.storage.", "rli.hudi.timeline.writing")

CHANGES_OF_ONE_FILE = {"write_bytes": 0, "create": 0, "publish": 1, "replace": 1, "move": 1}
CHANGES_OF_FILES = ("delete_files", "discard_files")
"""Methods of a storage, the first ones with the position of the argument that names the file."""


def test_one_room_writes_the_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="memory:door")
    folder, writers = opened_table(table).definition.timeline_layout.folder, set[str]()

    def note(path: str) -> None:
        if posixpath.dirname(path) == folder and _is_of_timeline(path):
            writers.add(_caller())

    for name, position in CHANGES_OF_ONE_FILE.items():
        monkeypatch.setattr(Storage, name, _noting_one(getattr(Storage, name), position, note))
    for name in CHANGES_OF_FILES:
        monkeypatch.setattr(Storage, name, _noting_each(getattr(Storage, name), note))
    run_every_operation(table)
    assert writers == {"rli.publication.archiving", "rli.publication.instants"}


def test_states_with_content_pass_the_fence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="memory:fence")
    folder, passed = opened_table(table).definition.timeline_layout.folder, set[bool]()

    def note(path: str) -> None:
        if posixpath.dirname(path) == folder and _is_of_timeline(path):
            passed.add("rli.publication.fence" in _modules())

    monkeypatch.setattr(Storage, "publish", _noting_one(Storage.publish, 1, note))
    run_every_operation(table)
    assert passed == {True}


def _noting_one(inner: Callable[..., Any], position: int, note: Callable[[str], None]) -> Callable[..., Any]:
    def noted(storage: Storage, *given: Any) -> Any:
        note(given[position])
        return inner(storage, *given)

    return noted


def _noting_each(inner: Callable[..., Any], note: Callable[[str], None]) -> Callable[..., Any]:
    def noted(storage: Storage, paths: Iterable[str]) -> Any:
        listed = [*paths]
        for path in listed:
            note(path)
        return inner(storage, listed)

    return noted


def _is_of_timeline(path: str) -> bool:
    return posixpath.basename(path)[:1].isdigit()


def _caller() -> str:
    """The module that asked for a change, above storage and formats."""
    below = dropwhile(lambda name: name == __name__ or name.startswith(BELOW_THE_DOOR), _modules())
    return next(below)


def _modules() -> Iterator[str]:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (the callers' modules)
    while frame is not None:
        yield frame.f_globals["__name__"]
        frame = frame.f_back
