"""The manifest of a write lists its files, and is believed by that write alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli.commit.manifest import listed_files, manifest_of
from rli.storage import Storage
from rli.view import paths

INSTANT, OTHER = "20240101000000000", "20240102000000000"
BASE = f"x/f-0_0-0-0_{INSTANT}.parquet"
LOG = f"x/.f-0_{INSTANT}.log.1_0-0-0"
LOG_OF_VERSION_6 = f"x/.f-0_{OTHER}.log.3_0-0-0"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = Storage(str(tmp_path))
    for path in (BASE, LOG, LOG_OF_VERSION_6):
        storage.write_bytes(path, b"")
    return storage


@pytest.mark.parametrize("files", [[], [BASE], [BASE, LOG], [LOG_OF_VERSION_6], [BASE, LOG_OF_VERSION_6]])
def test_a_manifest_lists_its_files(storage: Storage, files: list[str]) -> None:
    storage.write_bytes(paths.manifest(INSTANT), manifest_of(INSTANT, files))
    assert listed_files(storage, INSTANT) == files


@pytest.mark.invariant("P17")
@pytest.mark.parametrize("files", [[BASE, LOG], [BASE, LOG_OF_VERSION_6]])
def test_a_foreign_manifest_lists_nothing(storage: Storage, files: list[str]) -> None:
    foreign = "20240103000000000"
    storage.write_bytes(paths.manifest(foreign), manifest_of(INSTANT, files))
    assert listed_files(storage, foreign) == []


def test_torn_manifests_leave_the_names(storage: Storage) -> None:
    storage.write_bytes(paths.manifest(INSTANT), manifest_of(INSTANT, [BASE, LOG])[:-1])
    assert sorted(listed_files(storage, INSTANT)) == sorted([BASE, LOG])
