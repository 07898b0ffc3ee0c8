"""Hadoop's checksums never stand beside content that they do not fit, and files are synced before they have their name."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from rli.storage import Storage
from rli.storage.local_files import ancestors

NAME = "folder/file"
CHECKSUM = "folder/.file.crc"

CHANGES: dict[str, Callable[[Storage], object]] = {
    "write": lambda storage: storage.write_bytes(NAME, b"new"),
    "create": lambda storage: storage.create(NAME, b"new"),
    "publish": lambda storage: storage.publish(storage.draft("finished", b"new"), NAME),
    "move": lambda storage: storage.move("finished", NAME),
    "delete": lambda storage: storage.delete_files([NAME]),
}
REPLACING = ("write", "move", "delete")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A storage with a checksum beside a file's name, and another file."""
    storage = Storage(str(tmp_path))
    storage.write_bytes("finished", b"new")
    storage.write_bytes(CHECKSUM, b"of the old content")
    return storage


@pytest.mark.parametrize("change", CHANGES)
def test_changed_file_loses_its_checksum(storage: Storage, change: str) -> None:
    if change in REPLACING:
        (Path(storage.root) / NAME).write_bytes(b"old")
    CHANGES[change](storage)
    assert not storage.exists(CHECKSUM)


@pytest.mark.parametrize("change", REPLACING)
def test_checksum_is_removed_before_content_changes(
    storage: Storage, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(storage.root) / NAME).write_bytes(b"old")
    seen: list[bytes | None] = []
    unlink = os.unlink

    def look_and_unlink(path: str) -> None:
        unlink(path)
        if path.endswith(CHECKSUM):
            seen.append(storage.read_bytes(NAME))

    monkeypatch.setattr(os, "unlink", look_and_unlink)
    CHANGES[change](storage)
    assert seen == [b"old"]


@pytest.mark.parametrize("change", ["write", "create"])
@pytest.mark.parametrize("waits", ["waits", "does not wait"])
def test_content_is_synced_before_naming(
    tmp_path: Path, change: str, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(str(tmp_path), is_durable=waits == "waits")
    synced: list[tuple[bytes, bool]] = []
    fsync = os.fsync

    def look_and_sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.pread(descriptor, 10, 0), storage.exists(NAME)))

    monkeypatch.setattr(os, "fsync", look_and_sync)
    CHANGES[change](storage)
    assert synced == ([(b"new", False)] if storage.is_durable else [])
    assert storage.read_bytes(NAME) == b"new"


def test_file_and_folder_mixups_are_removed(
    tmp_path: Path,
) -> None:
    """After a power cut, a file system without a journal may show such."""
    storage = Storage(str(tmp_path))
    (tmp_path / "file/of/another").mkdir(parents=True)
    (tmp_path / "folder").write_bytes(b"another")
    storage.delete_files(["file", "folder/file"])
    assert storage.read_bytes("folder/file") is None
    storage.delete_folder("folder")
    assert list(tmp_path.iterdir()) == []


def test_sync_covers_files_and_parent_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(str(tmp_path))
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"content")
    synced: set[str] = set()
    fsync = os.fsync

    def note_and_sync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_and_sync)
    storage.flush(["a/b/file", "a/gone"], ["a/b"])
    assert synced == {str(tmp_path / part) for part in ("a/b/file", "a/b", "a", "")}


def test_folder_is_listed_during_changes(tmp_path: Path) -> None:
    storage, ended = Storage(str(tmp_path)), Event()

    def make_and_remove() -> None:
        while not ended.is_set():
            (tmp_path / "folder").mkdir()
            (tmp_path / "folder").rmdir()

    with ThreadPoolExecutor() as pool:
        rival = pool.submit(make_and_remove)
        try:
            assert {len(storage.list_folders("folder")) for _ in range(5_000)} == {0}
        finally:
            ended.set()
        rival.result()


def test_two_slashes_at_the_beginning_end() -> None:
    assert list(ancestors("//data/index", "/")) == ["//data/index", "//data", "//"]
