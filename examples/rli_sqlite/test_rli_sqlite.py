"""The example store keeps the contract: all that a store's own tests need to say."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from rli import StoreUnavailableError
from rli.store import open_store
from rli.testing import StoreConformance


class TestSqliteStore(StoreConformance):
    def make_url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/{uuid4().hex}.db"


def test_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked at\n" * 100)
    with pytest.raises(StoreUnavailableError, match=r"SQLite cannot use the file.*url=sqlite://"):
        open_store(f"sqlite://{tmp_path}/notes.txt")
