"""HFiles that Hudi wrote, by its own writer and by HBase's, are read whole and by single keys."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli.hudi.hfile.reader import HFileReader

TABLES: Final = Path(__file__).parents[3] / "data" / "hudi-metadata"
ARCHIVES: Final = ("v6_by_0.15", "v6", "v8", "v9")


def _files(archive: str) -> Iterator[tuple[str, HFileReader]]:
    with tarfile.open(TABLES / f"{archive}.tar.xz") as tar:
        for member in tar:
            if member.name.endswith(".hfile"):
                content = tar.extractfile(member)
                assert content is not None
                yield (
                    member.name.split("/metadata/")[1].split("/")[0],
                    HFileReader(io.BytesIO(content.read()), member.size),
                )


@pytest.mark.parametrize("archive", ARCHIVES)
def test_cells_match_the_announced(archive: str) -> None:
    seen = set()
    for partition, reader in _files(archive):
        seen.add(partition)
        cells = pa.Table.from_batches(list(reader.cells())).combine_chunks().to_batches()[0]
        keys = cells["key"].to_pylist()
        assert len(keys) == reader.entries
        assert keys == sorted(keys)
        # What Hudi says of the file beside its blocks.
        assert (keys[0], keys[-1]) == (reader.info["minRecordKey"], reader.info["maxRecordKey"])
        assert b"HoodieMetadataRecord" in reader.info["schema"]
        assert reader.lookup(cells["key"]) == cells
        assert reader.lookup(pa.array([key + b"~" for key in keys], pa.binary())).num_rows == 0
    assert {"files", "column_stats", "record_index", "bloom_filters"} <= seen


@pytest.mark.parametrize("archive", ARCHIVES)
def test_partitions_of_data_are_found(archive: str) -> None:
    wanted = ["__all_partitions__", "ap ö", "eu"]
    keys = pa.array([text.encode() for text in ["", *wanted, "zz"]], pa.binary())
    found = [
        reader.lookup(keys)["key"].cast(pa.string()).to_pylist()
        for partition, reader in _files(archive)
        if partition == "files"
    ]
    # The first base file was written with the empty table.
    assert all(names in (wanted, wanted[:1]) for names in found)
    assert wanted in found
