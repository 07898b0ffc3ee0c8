"""Tables and indexes on media that are mounted read only: what reads works, what writes says why it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rli import StoreUnavailableError, create_table, open_table
from rli_lmdb.entries import Transaction
from rli_lmdb.environment import Environment
from rli_lmdb.unlisted_environment import UnlistedEnvironment
from tests.support.children import start_child
from tests.support.tables import records, rows_of


def _putting(value: bytes) -> Callable[[Transaction], bool]:
    return lambda transaction: transaction.put(b"k", value)


def write_thrice_more(path: str) -> None:
    """A child's work: pages of one state are used again by the third transaction after it."""
    environment = Environment(path)
    for value in (b"second", b"third", b"fourth"):
        environment.write(_putting(value))
    environment.close()


@pytest.fixture
def media(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder, and where it is mounted read only."""
    if os.geteuid():
        pytest.skip("only root can mount a folder")
    source, mounted = tmp_path / "source", tmp_path / "mounted"
    source.mkdir()
    mounted.mkdir()
    subprocess.run(["mount", "--bind", source, mounted], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", mounted], check=True)
        yield source, mounted
    finally:
        subprocess.run(["umount", "--lazy", mounted], check=True)


def test_only_writes_fail_on_readonly_media(tmp_path: Path, media: tuple[Path, Path]) -> None:
    source, mounted = media
    with create_table(tmp_path / "made", record_key="id", partition_by="city", ordering="ts") as made:
        made.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    # As burnt on a disk: the index has never been at this place.
    shutil.move(tmp_path / "made", source / "table")
    with open_table(mounted / "table") as table:
        assert {row["id"] for row in rows_of(table)} == {"a", "b"}
        assert table.lookup(["a", "z"])["partition_path"].to_pylist() == ["x", None]
        assert table.verify_index().agrees
        assert table.index.stats().entries == 2
        with pytest.raises(StoreUnavailableError, match="read-only media"):
            table.upsert(records(("a", "x", 2, 1.0)))
        assert {row["ts"] for row in rows_of(table)} == {1}


def test_overtaken_lockless_read_is_repeated(
    media: tuple[Path, Path],
) -> None:
    source, mounted = media
    environment = Environment(str(source))
    environment.write(lambda transaction: transaction.put(b"k", b"first"))
    environment.close()
    reader, seen = UnlistedEnvironment(str(mounted)), []

    def work(transaction: Transaction) -> bytes | None:
        found = transaction.get(b"k")
        seen.append(found)
        if len(seen) == 1:
            child = start_child(write_thrice_more, str(source))
            child.join()
            assert child.exitcode == 0
        return found

    assert reader.read(work) == b"fourth"
    assert seen == [b"first", b"fourth"]
    reader.close()
