"""One module lists data files, so that one other source of their names can stand in for the folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rli import create_table
from rli.storage import Storage
from tests.support.operations import run_every_operation


@pytest.mark.parametrize("listing", ["list_files", "list_folders"])
def test_only_view_lists_data_files(listing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"memory:{listing}-of-data-files"
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=url)
    listed_by: set[str] = set()
    inner = getattr(Storage, listing)

    def observed(storage: Storage, path: str = "", **options: Any) -> Any:
        if path.partition("/")[0] != ".hoodie":
            listed_by.add(sys._getframe(1).f_globals["__name__"])  # noqa: SLF001  (the caller's module)
        return inner(storage, path, **options)

    monkeypatch.setattr(Storage, listing, observed)
    run_every_operation(table)
    assert listed_by == {"rli.view.file_listing"}
