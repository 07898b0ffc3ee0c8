"""Tables that name the lock of Hudi's writers: what a write does for them, and which tables are not written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import LeaseLostError, SettingsError, Step, Table, UnsupportedTableError, create_table, open_table
from rli.errors import LeaseBusyError

pytestmark = pytest.mark.invariant("P55")

ROWS = pa.table({"id": ["a", "b"], "city": ["Rome", "Oslo"], "ts": [1, 1]})
PACKAGE = "org.apache.hudi.client.transaction.lock"


def locked(folder: Path, lock: str = "filesystem") -> Table:
    return create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", lock=lock, write_attempts=1)


def with_property(table: Table, line: str) -> Table:
    with Path(table.location, ".hoodie/hoodie.properties").open("a") as properties:
        properties.write(f"{line}\n")
    return open_table(table.location)


def test_write_waits_for_hudi(tmp_path: Path) -> None:
    table = locked(tmp_path)
    table.upsert(ROWS)
    lock = Path(table.location, ".hoodie/lock")
    lock.touch()
    with pytest.raises(LeaseBusyError, match="Hudi's lock"):
        table.clean(timeout=0)
    lock.unlink()
    assert table.delete(["a"]).deleted == 1
    assert not lock.exists()


def test_pending_write_gives_heartbeats(tmp_path: Path) -> None:
    table = locked(tmp_path)
    folder = Path(table.location, ".hoodie/.heartbeat")
    seen = list[list[str]]()

    def look(step: Step) -> None:
        if step is Step.WRITTEN:
            seen.append([file.name for file in folder.iterdir()])

    result = table.upsert(ROWS, on_step=look)
    assert seen == [[result.instant]]
    assert list(folder.iterdir()) == []


def test_rollback_by_hudi_is_told(tmp_path: Path) -> None:
    table = locked(tmp_path)
    meta = Path(table.location, ".hoodie")

    def roll_back(step: Step) -> None:
        if step is Step.WRITTEN:
            [instant] = [file.name.partition(".")[0] for file in meta.glob("*.commit.requested")]
            for file in meta.glob(f"{instant}*"):
                file.unlink()
            (meta / f"{int(instant) + 1}.rollback.requested").touch()

    with pytest.raises(LeaseLostError, match="another engine rolled this write back"):
        table.upsert(ROWS, on_step=roll_back)


@pytest.mark.parametrize(
    "line",
    [
        f"hoodie.write.lock.provider={PACKAGE}.DynamoDBBasedLockProvider",
        f"hoodie.write.lock.provider={PACKAGE}.FileSystemBasedLockProvider\nhoodie.clean.failed.writes.policy=EAGER",
    ],
)
def test_unsafe_locks_are_refused(tmp_path: Path, line: str) -> None:
    table = with_property(locked(tmp_path, "lease"), line)
    with pytest.raises(UnsupportedTableError, match=r"Dynamo|EAGER"):
        table.upsert(ROWS)
    assert table.read().num_rows == 0


def test_unknown_choice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="filesystem"):
        locked(tmp_path, "dynamodb")
    assert not (tmp_path / "t").exists()
