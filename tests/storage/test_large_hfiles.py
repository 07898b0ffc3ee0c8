"""Number of requests for files of the metadata table of a large table, in an object store."""

from __future__ import annotations

import os
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli.hudi.hfile.cells import CELLS
from rli.hudi.hfile.reader import HFileReader
from rli.hudi.hfile.writer import write_hfile
from rli.hudi.metadata.group_reader import GroupReader
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.schema import METADATA_SCHEMA_TEXT
from rli.storage import Storage, StoredFile
from tests.support.object_store import ObjectStore

_LISTED_FILES: Final = 150_000
_AT_ONCE: Final = 8 << 20


@pytest.mark.slow
def test_large_hfiles_take_few_requests(object_store: ObjectStore) -> None:
    storage = Storage(f"s3://{object_store.new_bucket()}/t", object_store.options)
    keys = pa.array([os.urandom(20).hex().encode() for _ in range(_LISTED_FILES)])
    cells = pa.record_batch([keys.take(pc.array_sort_indices(keys)), keys], schema=CELLS)
    path = storage.full_path("large.hfile")
    with storage.filesystem.open_output_stream(path) as sink:
        write_hfile(sink, [cells], METADATA_SCHEMA_TEXT)
        size = sink.tell()
    with storage.filesystem.open_input_file(path) as source:
        before = len(object_store.requests())
        reader = HFileReader(source, size)
        assert sum(batch.num_rows for batch in reader.cells()) == _LISTED_FILES
        assert len(object_store.requests()) - before <= 2 + size // _AT_ONCE, size
        before = len(object_store.requests())
        assert reader.lookup(cells["key"].slice(5, 1)).num_rows == 1
        assert len(object_store.requests()) - before == 1
    before = len(object_store.requests())
    nothing: Any = None
    group = GroupSlice("files-0000-0", StoredFile("large.hfile", size), "20240531120000123", (), ())
    whole = GroupReader(storage, group, nothing, nothing, merges=True)
    assert sum(batch.num_rows for batch in whole.scan()) == _LISTED_FILES
    assert len(object_store.requests()) - before == 1
