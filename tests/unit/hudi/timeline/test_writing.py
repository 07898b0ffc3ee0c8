from __future__ import annotations

import io
from pathlib import Path
from uuid import uuid4

import fastavro
import pytest

from rli.errors import CorruptTableError
from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.instant import InstantState
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.rollback_metadata import RollbackMetadata, RollbackPlan
from rli.hudi.timeline.timeline import load_timeline, read_commit
from rli.hudi.timeline.writing import TimelineWriter
from rli.storage import Storage
from tests.support.hudi_tables import unzip_hudi_table

TIME = "20240531120000123"
COMPLETED = "20240531120001000"
LATER = "20240531120002000"


def names(writer: TimelineWriter) -> list[str]:
    return [file.name for file in writer.storage.list_files(writer.layout.folder)]


@pytest.fixture(params=[1, 2])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> TimelineWriter:
    return TimelineWriter(Storage(str(tmp_path)), TimelineLayout.of(request.param))


def completed_name(writer: TimelineWriter, action: str) -> str:
    return f"{TIME}_{COMPLETED}.{action}" if writer.layout.version == 2 else f"{TIME}.{action}"


def publish(writer: TimelineWriter, action: str, content: bytes) -> bool:
    return writer.publish(writer.storage.draft(uuid4().hex, content), TIME, action, COMPLETED)


def test_a_commit_goes_through_its_states(writer: TimelineWriter) -> None:
    content = writer.layout.encode(CommitMetadata((), operation="UPSERT"))
    assert writer.request(TIME, "commit")
    assert writer.start(TIME, "commit")
    assert load_timeline(writer.storage, writer.layout).find(TIME).state is InstantState.INFLIGHT
    assert publish(writer, "commit", content)
    timeline = load_timeline(writer.storage, writer.layout)
    assert timeline.find(TIME).state is InstantState.COMPLETED
    assert read_commit(writer.storage, timeline, timeline.find(TIME)).operation == "UPSERT"
    assert names(writer) == sorted([f"{TIME}.commit.requested", f"{TIME}.inflight", completed_name(writer, "commit")])


def test_no_state_is_reached_twice(writer: TimelineWriter) -> None:
    assert writer.request(TIME, "rollback", b"plan")
    assert not writer.request(TIME, "rollback", b"other")
    assert writer.requested(TIME, "rollback") == b"plan"
    assert writer.start(TIME, "rollback")
    assert not writer.start(TIME, "rollback")
    assert publish(writer, "rollback", b"done")
    before = names(writer)
    assert not writer.publish(writer.storage.draft("content", b"other"), TIME, "rollback", LATER)
    assert names(writer) == before
    path = writer.layout.path(completed_name(writer, "rollback"))
    assert writer.storage.read_bytes(path) == b"done"


def test_unretracted_draft_is_published(writer: TimelineWriter) -> None:
    writer.request(TIME, "rollback")
    draft = writer.storage.draft("content", b"done")
    assert writer.storage.retract("content")
    with pytest.raises(FileNotFoundError):
        writer.publish(draft, TIME, "rollback", COMPLETED)
    assert writer.publish(writer.storage.draft("content", b"done"), TIME, "rollback", COMPLETED)
    assert writer.is_completed(TIME, "rollback")


def test_withdrawn_commit_is_inflight_until_removed(writer: TimelineWriter) -> None:
    writer.request(TIME, "commit")
    writer.start(TIME, "commit")
    publish(writer, "commit", b"content")
    writer.withdraw(TIME, "commit")
    assert load_timeline(writer.storage, writer.layout).find(TIME).state is InstantState.INFLIGHT
    writer.remove(TIME, "commit")
    writer.remove(TIME, "commit")
    assert names(writer) == []


def test_other_actions_name_their_inflight_file(writer: TimelineWriter) -> None:
    writer.request(TIME, "rollback", b"plan")
    writer.start(TIME, "rollback")
    publish(writer, "rollback", b"done")
    expected = [completed_name(writer, "rollback"), f"{TIME}.rollback.inflight", f"{TIME}.rollback.requested"]
    assert names(writer) == sorted(expected)


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
