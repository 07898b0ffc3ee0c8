from __future__ import annotations

import io
from pathlib import Path

import fastavro
import pytest

from rli.errors import CorruptTableError
from rli.storage import Storage
from rli.timeline.commit_metadata import CommitMetadata
from rli.timeline.instant import State
from rli.timeline.rollback_metadata import RollbackMetadata, RollbackPlan
from rli.timeline.timeline import load_timeline
from rli.timeline.writing import TimelineWriter
from tests.support.hudi_tables import unzip_hudi_table

TIME = "20240531120000123"
COMMIT = CommitMetadata(()).to_json()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".hoodie").iterdir())


@pytest.fixture
def writer(tmp_path: Path) -> TimelineWriter:
    return TimelineWriter(Storage(str(tmp_path)))


def test_a_commit_goes_through_its_states(writer: TimelineWriter, tmp_path: Path) -> None:
    assert writer.request(TIME, "commit")
    assert writer.start(TIME, "commit")
    assert load_timeline(writer.storage, 1).find(TIME).state is State.INFLIGHT
    assert writer.complete(TIME, "commit", COMMIT)
    assert load_timeline(writer.storage, 1).find(TIME).state is State.COMPLETED
    assert names(tmp_path) == [f"{TIME}.commit", f"{TIME}.commit.requested", f"{TIME}.inflight"]


def test_no_state_is_reached_twice(writer: TimelineWriter, tmp_path: Path) -> None:
    assert writer.request(TIME, "commit")
    assert not writer.request(TIME, "commit")
    assert writer.start(TIME, "commit")
    assert not writer.start(TIME, "commit")
    assert writer.complete(TIME, "commit", COMMIT)
    assert not writer.complete(TIME, "commit", b"other")
    assert (tmp_path / ".hoodie" / f"{TIME}.commit").read_bytes() == COMMIT


def test_a_withdrawn_commit_is_inflight_and_a_removed_one_is_gone(writer: TimelineWriter, tmp_path: Path) -> None:
    writer.request(TIME, "commit")
    writer.start(TIME, "commit")
    writer.complete(TIME, "commit", COMMIT)
    writer.withdraw(TIME, "commit")
    assert load_timeline(writer.storage, 1).find(TIME).state is State.INFLIGHT
    writer.remove(TIME, "commit")
    writer.remove(TIME, "commit")
    assert names(tmp_path) == []


def test_other_actions_name_their_inflight_file(writer: TimelineWriter, tmp_path: Path) -> None:
    writer.request(TIME, "rollback", b"plan")
    writer.start(TIME, "rollback")
    writer.complete(TIME, "rollback", b"done")
    assert names(tmp_path) == [f"{TIME}.rollback", f"{TIME}.rollback.inflight", f"{TIME}.rollback.requested"]


def _decoded(content: bytes) -> tuple[object, dict[str, object]]:
    reader = fastavro.reader(io.BytesIO(content))
    (record,) = reader
    assert isinstance(record, dict)
    return reader.writer_schema, record


@pytest.fixture
def real_rollback(tmp_path: Path) -> tuple[bytes, bytes]:
    path = unzip_hudi_table("sample_table/mor/parquet/v6_nonpartitioned_rollback", tmp_path) / ".hoodie"
    (plan,) = path.glob("*.rollback.requested")
    (metadata,) = path.glob("*.rollback")
    return plan.read_bytes(), metadata.read_bytes()


def test_a_real_rollback_is_read(real_rollback: tuple[bytes, bytes]) -> None:
    plan = RollbackPlan.from_avro(real_rollback[0], "plan")
    assert (plan.instant_time, plan.action) == ("20250126040826878", "deltacommit")
    (path,) = plan.files[""]
    assert path.endswith("_20250126040826878.parquet")
    metadata = RollbackMetadata.from_avro(real_rollback[1], "metadata")
    assert metadata == RollbackMetadata(
        "20250126040936578", "20250126040826878", "deltacommit", 195, {"": plan.files[""]}
    )


def test_our_rollback_has_hudis_schema(real_rollback: tuple[bytes, bytes]) -> None:
    plan = RollbackPlan("20240531115900000", "commit", {"p": ("/t/p/a", "/t/p/b"), "q": ("/t/q/c",)})
    metadata = RollbackMetadata(TIME, "20240531115900000", "commit", 12, plan.files)
    written = plan.to_avro(), metadata.to_avro()
    for ours, theirs in zip(written, real_rollback, strict=True):
        our_schema, our_record = _decoded(ours)
        their_schema, their_record = _decoded(theirs)
        assert _without_docs(our_schema) == _without_docs(their_schema)
        assert our_record.keys() == their_record.keys()
    assert RollbackPlan.from_avro(written[0], "plan") == plan
    assert RollbackMetadata.from_avro(written[1], "metadata") == metadata


def _without_docs(schema: object) -> object:
    if isinstance(schema, dict):
        return {key: _without_docs(value) for key, value in schema.items() if key != "doc"}
    return [_without_docs(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("content", [b"", b"{}", b"Obj\x01"])
def test_malformed_rollbacks_are_reported(content: bytes) -> None:
    for read in (RollbackPlan.from_avro, RollbackMetadata.from_avro):
        with pytest.raises(CorruptTableError, match=r"file=x\.rollback"):
            read(content, "x.rollback")
