from __future__ import annotations

import io
import json
from dataclasses import replace

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptTableError
from rli.hudi.timeline.commit_metadata import AppendedTo, CommitMetadata, WriteStat

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
COUNT = st.integers(0, 2**63 - 1)
STATS = st.builds(
    WriteStat,
    file_id=TEXT,
    path=TEXT,
    partition_path=st.sampled_from(["", "city=Köln", "a/b"]),
    previous_instant=st.sampled_from([None, "20240531120000123"]),
    writes=COUNT,
    inserts=COUNT,
    update_writes=COUNT,
    deletes=COUNT,
    written_bytes=COUNT,
    file_size=COUNT,
)
LOG = ".f-0_20240531120000123.log.7_1-0-1"
LOG_STATS = st.builds(
    replace,
    STATS,
    path=st.sampled_from([LOG, f"a/b/{LOG}"]),
    appended_to=st.builds(
        AppendedTo, st.sampled_from(["", "f-0_0-0-0_1.parquet"]), st.lists(TEXT, min_size=1, max_size=3).map(tuple)
    ),
)
METADATA = st.builds(
    CommitMetadata,
    write_stats=st.lists(st.one_of(STATS, LOG_STATS), max_size=4).map(
        lambda stats: tuple(sorted(stats, key=lambda s: s.partition_path))
    ),
    replaced_file_ids=st.dictionaries(TEXT, st.lists(TEXT, min_size=1, max_size=3).map(tuple), max_size=2),
    avro_schema=st.one_of(st.none(), TEXT),
    operation=TEXT,
    extra=st.dictionaries(TEXT.filter(lambda key: key != "schema"), TEXT, max_size=2),
)


@given(METADATA)
def test_json_keeps_everything(metadata: CommitMetadata) -> None:
    stats = sorted(metadata.write_stats, key=lambda stat: stat.partition_path)
    read = CommitMetadata.from_json(metadata.to_json(), "x.commit")
    assert sorted(read.write_stats, key=lambda stat: stat.partition_path) == stats
    assert read == metadata


@given(METADATA)
def test_avro_keeps_everything(metadata: CommitMetadata) -> None:
    assert CommitMetadata.from_avro(metadata.to_avro(), "x.commit") == metadata


def test_json_names_what_hudi_reads() -> None:
    stat = WriteStat("f-0", "p/f-0_0-1-0_1.parquet", "p", None, 3, 2, 1, 4, 50, 60)
    content = json.loads(CommitMetadata((stat,), avro_schema="{}", operation="UPSERT").to_json())
    (written,) = content["partitionToWriteStats"]["p"]
    expected = {
        "fileId": "f-0",
        "path": "p/f-0_0-1-0_1.parquet",
        "prevCommit": "null",
        "numWrites": 3,
        "numInserts": 2,
        "numUpdateWrites": 1,
        "numDeletes": 4,
        "totalWriteBytes": 50,
        "fileSizeInBytes": 60,
        "totalWriteErrors": 0,
        "partitionPath": "p",
    }
    assert expected.items() <= written.items()
    assert content["compacted"] is False
    assert content["extraMetadata"] == {"schema": "{}"}
    assert content["operationType"] == "UPSERT"
    assert "partitionToReplaceFileIds" not in content


def test_json_tells_logs_as_hudi() -> None:
    appended_to = AppendedTo("f-0_0-0-0_20240531120000123.parquet", (".f-0_20240531120000123.log.6_1-0-1", LOG), 20)
    stat = WriteStat("f-0", f"p/{LOG}", "p", "20240531120000123", 5, 0, 3, 2, 70, 70, appended_to)
    (written,) = json.loads(CommitMetadata((stat,)).to_json())["partitionToWriteStats"]["p"]
    expected = {
        "path": f"p/{LOG}",
        "prevCommit": "20240531120000123",
        "logVersion": 7,
        "logOffset": 20,
        "baseFile": "f-0_0-0-0_20240531120000123.parquet",
        "logFiles": [".f-0_20240531120000123.log.6_1-0-1", LOG],
    }
    assert expected.items() <= written.items()
    assert CommitMetadata.from_json(CommitMetadata((stat,)).to_json(), "x.deltacommit").write_stats == (stat,)


def test_base_files_have_no_logs() -> None:
    stat = WriteStat("f-0", "p/f-0_0-1-0_1.parquet", "p", None, 3, 2, 1, 4, 50, 60)
    (written,) = json.loads(CommitMetadata((stat,)).to_json())["partitionToWriteStats"]["p"]
    assert {"logVersion", "logOffset", "baseFile", "logFiles"}.isdisjoint(written)


def test_logs_are_known_by_path() -> None:
    content = {"partitionToWriteStats": {"p": [{"fileId": "f-0", "path": f"p/{LOG}"}]}}
    (stat,) = CommitMetadata.from_json(json.dumps(content).encode(), "x.deltacommit").write_stats
    assert stat.appended_to == AppendedTo("", (LOG,))


def test_stat_without_file_is_skipped() -> None:
    content = {"partitionToWriteStats": {"": [{"fileId": "", "path": None}]}, "operationType": None}
    assert CommitMetadata.from_json(json.dumps(content).encode(), "x.commit") == CommitMetadata(())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"partitionToWriteStats": {"p": [',
        b'{"partitionToWriteStats": {"p": [{"path": "x"}]}}',
        b'{"partitionToWriteStats": {"p": [{"path": "x", "fileId": 7}]}}',
        b'{"partitionToWriteStats": {"p": [{"path": "x", "fileId": "f", "numWrites": "many"}]}}',
        b'{"partitionToWriteStats": ["p"]}',
    ],
)
def test_malformed_json_names_its_file(content: bytes) -> None:
    with pytest.raises(CorruptTableError, match=r"file=20240531120000123\.commit"):
        CommitMetadata.from_json(content, "20240531120000123.commit")


def _other_avro() -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, {"type": "record", "name": "other", "fields": []}, [{}])
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"", b"{}", b"Obj\x01", _other_avro(), _other_avro()[:-3]])
def test_malformed_avro_names_its_file(content: bytes) -> None:
    with pytest.raises(CorruptTableError, match=r"file=1_2\.commit"):
        CommitMetadata.from_avro(content, "1_2.commit")
