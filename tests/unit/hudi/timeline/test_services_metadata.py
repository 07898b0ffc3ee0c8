"""Plans of cleans, and what rollbacks and restores undid, as the timeline keeps them."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro
import pytest

from rli.errors import CorruptTableError
from rli.hudi.timeline.clean_metadata import CleanPlan
from rli.hudi.timeline.restore_metadata import RestoreMetadata, RestorePlan
from rli.hudi.timeline.rollback_metadata import RollbackMetadata
from rli.hudi.timeline.savepoint_metadata import SavepointMetadata
from rli.hudi.timeline.undone import Undone
from tests.support.hudi_tables import unzip_hudi_table

KEPT, LAST, CLEAN = "20240531115900000", "20240531120000000", "20240531120001000"
PLAN = CleanPlan(KEPT, "commit", LAST, {"p/q": ("/t/p/q/a.parquet", "/t/p/q/b.parquet"), "": ("/t/c.parquet",)})


def test_a_plan_is_read_back() -> None:
    assert CleanPlan.from_avro(PLAN.to_avro(), "plan") == PLAN
    open_ended = CleanPlan(None, "", LAST, {}, policy="KEEP_LATEST_FILE_VERSIONS")
    assert CleanPlan.from_avro(open_ended.to_avro(), "plan") == open_ended


def test_completed_clean_names_files_by_partition() -> None:
    (record,) = fastavro.reader(io.BytesIO(PLAN.completed(CLEAN, 12)))
    assert isinstance(record, dict)
    assert (record["startCleanTime"], record["earliestCommitToRetain"], record["totalFilesDeleted"]) == (CLEAN, KEPT, 3)
    deleted = {path: part["successDeleteFiles"] for path, part in record["partitionMetadata"].items()}
    assert deleted == {"p/q": ["a.parquet", "b.parquet"], "": ["c.parquet"]}


@pytest.mark.parametrize("content", [b"", b"{}", b"Obj\x01", RollbackMetadata(CLEAN, LAST, "commit", 1).to_avro()])
def test_what_is_no_plan_is_reported(content: bytes) -> None:
    with pytest.raises(CorruptTableError, match=r"file=x\.clean\.requested"):
        CleanPlan.from_avro(content, "x.clean.requested")


def test_real_rollback_names_undone_files(tmp_path: Path) -> None:
    folder = unzip_hudi_table("sample_table/mor/parquet/v6_nonpartitioned_rollback", tmp_path) / ".hoodie"
    (path,) = folder.glob("*.rollback")
    undone = Undone.from_avro("rollback", path.read_bytes(), path.name)
    assert undone.instants == ("20250126040826878",)
    assert undone.files == {"": frozenset({"cd329d8f-0ce4-4654-84ab-2f769aae5034-0_1-33-44_20250126040826878.parquet"})}


def test_what_undoes_nothing_is_reported() -> None:
    for action in ("rollback", "restore"):
        with pytest.raises(CorruptTableError, match=rf"a completed {action} cannot be read: file=x"):
            Undone.from_avro(action, PLAN.to_avro(), "x")


def test_a_restore_is_read_back() -> None:
    plan = RestorePlan(KEPT, ((CLEAN, "commit"), (LAST, "commit")))
    assert RestorePlan.from_avro(plan.to_avro(), "plan") == plan
    rollbacks = tuple(
        RollbackMetadata("20240531120002000", time, "commit", 3, {"p": (f"/t/p/{time}.parquet",)})
        for time in (CLEAN, LAST)
    )
    restore = RestoreMetadata("20240531120002000", 12, rollbacks)
    assert RestoreMetadata.from_avro(restore.to_avro(), "done") == restore
    undone = Undone.from_avro("restore", restore.to_avro(), "done")
    assert undone.instants == (CLEAN, LAST)
    assert undone.files == {"p": frozenset({f"{CLEAN}.parquet", f"{LAST}.parquet"})}


@pytest.mark.parametrize("content", [b"", b"Obj\x01", PLAN.to_avro()])
def test_what_is_no_restore_is_reported(content: bytes) -> None:
    for read in (RestorePlan.from_avro, RestoreMetadata.from_avro):
        with pytest.raises(CorruptTableError, match=r"file=x\.restore"):
            read(content, "x.restore")


def test_savepoint_names_kept_files() -> None:
    (record,) = fastavro.reader(io.BytesIO(SavepointMetadata("rli", 7, "why", {"p": ("a", "b"), "": ()}).to_avro()))
    assert record == {
        "savepointedBy": "rli",
        "savepointedAt": 7,
        "comments": "why",
        "partitionMetadata": {
            "p": {"partitionPath": "p", "savepointDataFile": ["a", "b"]},
            "": {"partitionPath": "", "savepointDataFile": []},
        },
        "version": 1,
    }
