"""Python workers see what changes in the zip files on their path, and read nothing of those that do not change."""

from __future__ import annotations

import importlib
import sys
import zipimport
from pathlib import Path
from zipfile import ZipFile

import pytest

from rli_spark.session.zip_directories import watch_zip_directories


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zip file on Python's path, all of whose traces are removed in the end."""
    path = tmp_path / "modules.zip"
    add_module(path, "zipped_first")
    monkeypatch.setattr(sys, "path", [*sys.path, str(path)])
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return path


def add_module(archive: Path, name: str) -> None:
    with ZipFile(archive, "a") as file:
        file.writestr(f"{name}.py", f"NAME = {name!r}\n")


@pytest.mark.parametrize("known", [True, False])
def test_added_module_is_found(archive: Path, *, known: bool) -> None:
    if known:
        importlib.import_module("zipped_first")
    watch_zip_directories()
    assert importlib.import_module("zipped_first").NAME == "zipped_first"
    add_module(archive, "zipped_second")
    importlib.invalidate_caches()
    assert importlib.import_module("zipped_second").NAME == "zipped_second"


def test_removed_file_has_no_modules(archive: Path) -> None:
    watch_zip_directories()
    importlib.import_module("zipped_first")
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("zipped_second")


def test_unchanged_file_is_not_reread(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("zipped_first")
    watch_zip_directories()
    read: list[str] = []
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", lambda self: read.append(self.archive))
    importlib.invalidate_caches()
    assert read == []
    add_module(archive, "zipped_second")
    importlib.invalidate_caches()
    importlib.invalidate_caches()
    assert read == [str(archive)]
