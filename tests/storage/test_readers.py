"""Readers of a table in an object store, beside whole operations of others (P44)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import obstore
import pytest

from rli import create_table
from tests.concurrency.test_readers_beside_operations import Place, arrow_threads, write_all, wrong_answers
from tests.support.index_kinds import KINDS
from tests.support.object_store import ObjectStore
from tests.support.soak import in_ci

pytestmark = [pytest.mark.invariant("P44"), pytest.mark.usefixtures(arrow_threads.__name__)]

OPERATIONS: Final = ("restore and archive", "migration")
"""Those that take the most from under a reader."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "metadata"),
    in_ci(
        [("filtered read", ["files", "column_stats"])],
        of=[("get", "none"), ("verify", "none"), ("filtered read", ["files", "column_stats"])],
    ),
)
def test_readers_in_an_object_store(
    verb: str, metadata: str | list[str], object_store: ObjectStore, tmp_path: Path
) -> None:
    kind, bucket = KINDS["record"], object_store.new_bucket()
    location, client = f"s3://{bucket}/t", object_store.client(bucket)
    index, kept = tmp_path / "index", tmp_path / "kept"
    table = create_table(
        location,
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=kind.url.format(folder=tmp_path),
        storage_options=object_store.options,
        maintenance=False,
        metadata=metadata,
    )
    instants = write_all(table)
    table.close()
    index.rename(kept)
    objects = {found["path"]: obstore.get(client, found["path"]).bytes() for found in obstore.list(client).collect()}

    def places() -> Iterator[Place]:
        while True:
            shutil.rmtree(index, ignore_errors=True)
            shutil.copytree(kept, index)
            obstore.delete(client, [found["path"] for found in obstore.list(client).collect()])
            for path, content in objects.items():
                obstore.put(client, path, content)
            yield Place(location, object_store.options, "global-simple:", instants, kind)

    assert wrong_answers(verb, places(), OPERATIONS, points=1) == []
