"""What a user in Python reaches for: history, info, the last commit by name, limits to waiting, short reprs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from rli import LeaseBusyError, Table, create_table, open_table
from rli.coordination.lease import TableLease
from rli.errors import CorruptTableError, InstantNotFoundError, InvalidInputError, InvalidKeyError
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from tests.support.indexes import record_index
from tests.support.tables import records


@pytest.fixture
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Two commits: a and b come, then a moves and c comes."""
    made = rli.create_table(
        tmp_path_factory.mktemp("t"),
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"memory:{uuid4().hex}",
    )
    made.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    made.upsert(records(("a", "y", 2, 1.0), ("c", "x", 2, 1.0), ("b", "x", 0, 9.0)), transaction=("job", 7))
    return made


def test_history_matches_write_results(table: Table) -> None:
    deleted = table.delete(["b"])
    entries = table.history()
    counts = [(e.inserted, e.updated, e.moved, e.deleted, e.unchanged) for e in entries]
    assert counts == [(2, 0, 0, 0, 0), (1, 0, 1, 0, 1), (0, 0, 0, 1, 0)]
    assert [e.operation for e in entries] == ["UPSERT", "UPSERT", "DELETE"]
    assert entries[1].transaction == ("job", 7)
    assert all(e.seconds is not None and 0 < e.seconds < 60 for e in entries)
    assert all(e.writer is not None and re.fullmatch(r"[^@]+@[^@]+", e.writer) for e in entries)
    assert table.history(limit=1) == entries[-1:]
    assert entries[-1].time == deleted.instant
    undone_by = table.rollback("last")
    assert table.history()[-1].time == undone_by
    assert table.history()[-1].undone == (deleted.instant,)
    with pytest.raises(InvalidInputError, match="limit must be at least 1"):
        table.history(limit=0)


@pytest.mark.parametrize("damaged", ["", "no JSON", "[]", "{}", '{"inserted": "many"}'])
def test_damaged_counts_fall_back_to_files(table: Table, damaged: str) -> None:
    for file in Path(table.location, ".hoodie").glob("*.commit"):
        commit = json.loads(file.read_bytes())
        commit["extraMetadata"]["rli.counts"] = damaged
        file.write_text(json.dumps(commit))
    assert [(e.inserted, e.moved, e.deleted) for e in table.history()] == [(2, None, 0), (2, None, 1)]


def test_result_and_history_count_same_files(table: Table) -> None:
    result = table.upsert(records(("b", "x", 3, 3.0), ("d", "z", 3, 3.0)))
    assert (result.files_created, result.files_rewritten) == (1, 1)
    assert result.files == table.history()[-1].files == 2


def test_last_names_the_last_commit(table: Table) -> None:
    before = table.read().sort_by("id")
    wrong = table.delete(["a", "c"])
    table.rollback("last")
    assert table.read().sort_by("id") == before
    assert wrong.instant not in {instant.time for instant in table.timeline() if instant.is_write}
    table.rollback("last")
    table.rollback("last")
    with pytest.raises(InstantNotFoundError, match="no commit to roll back"):
        table.rollback("last")


def test_last_passes_over_clusterings(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", small_file_size=0, index=f"memory:{uuid4().hex}")
    table.upsert(records(("a", "x", 1, 1.0)))
    before = table.read()
    wrong = table.upsert(records(("b", "x", 1, 1.0)))
    assert table.cluster(smaller_than=2**20).instant is not None
    undone_by = table.rollback("last")
    assert table.history()[-1].time == undone_by
    assert table.history()[-1].undone == (wrong.instant,)
    assert table.read() == before


@pytest.mark.parametrize(
    "tell", [lambda table: table.history(), lambda table: table.info(), lambda table: table.schema]
)
def test_reports_beside_rollback_show_later_state(
    tell: Callable[[Table], object], table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, undone = Snapshot.now, list[str]()

    def with_a_rollback_behind(definition: TableDefinition) -> Snapshot:
        seen = now(definition)
        if not undone:
            undone.append("")
            undone.append(open_table(table.location).rollback("last"))
        return seen

    monkeypatch.setattr(Snapshot, "now", with_a_rollback_behind)
    told = tell(table)
    monkeypatch.undo()
    assert len(undone) == 2
    assert told == tell(table)


def test_service_waits_and_names_lease_holder(table: Table) -> None:
    last = table.timeline()[-1].time
    services = (
        lambda: table.rollback(last, timeout=0),
        lambda: table.restore(last, timeout=0.05),
        lambda: table.savepoint(timeout=0),
        lambda: table.delete_savepoint(last, timeout=0),
        lambda: table.clean(timeout=0),
        lambda: table.archive(timeout=0),
        lambda: table.repair_index(timeout=0),
    )
    with TableLease(record_index(table).store).hold("the other one"):
        for service in services:
            with pytest.raises(
                LeaseBusyError, match=r"holds the lease: writer='the other one' host=.* pid=\d+ waited="
            ):
                service()
    with pytest.raises(InvalidInputError, match="timeout must be 0 or more"):
        table.clean(timeout=-1)
    assert table.verify_index(timeout=0).agrees


def test_info_tells_what_a_table_is(table: Table) -> None:
    found = table.info()
    assert found.columns == {"id": "string", "city": "string", "ts": "int64", "v": "double"}
    assert (found.record_key, found.partition_by, found.ordering) == (("id",), ("city",), ("ts",))
    assert (found.commits, found.pending, found.last_commit) == (2, 0, table.timeline()[-1].time)
    assert (found.files, found.partitions) == (2, 2)
    assert found.index is not None
    assert (found.index.entries, found.index.unseen_commits) == (3, 0)
    assert found.problems == ()
    with TableLease(record_index(table).store).hold("somebody"):
        assert table.info().lease == "somebody"
    table.drop_index()
    assert table.info().index is None
    assert "rli index bootstrap" in table.info().problems[0]


def test_reprs_are_short_without_password(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("t")
    table = rli.create_table(folder, record_key=["a", "b"], index=f"lmdb://{folder}/i")
    assert repr(table) == f"<rli.Table '{folder}' record_key='a,b' index='lmdb://{folder}/i'>"
    assert repr(record_index(table)).startswith(f"<rli.RecordIndex 'lmdb://{folder}/i' table_id=")
    elsewhere = rli.open_table(folder, index="redis://user:secret@127.0.0.1:1/0")
    assert "secret" not in repr(elsewhere)
    assert "user" in repr(elsewhere)


def test_empty_key_is_refused_everywhere(table: Table) -> None:
    for ask in (table.lookup, table.get, table.delete):
        with pytest.raises(InvalidKeyError, match="a record key is empty"):
            ask(["a", ""])
    # Of an index alone it is a key like any other.
    with rli.create_index(f"memory:{uuid4().hex}") as index:
        assert index.lookup([""])["file_id"].to_pylist() == [None]


def test_bootstrap_names_files_of_repeated_keys(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("t")
    table = rli.create_table(folder, record_key="id", partition_by="city")
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    (original,) = (folder / "x").glob("*.parquet")
    (folder / "y").mkdir()
    copy = folder / "y" / f"other-0_{original.name.partition('_')[2]}"
    copy.write_bytes(original.read_bytes())
    both = rf"'a' in x/{original.name}, y/{copy.name}; 'b' in x/{original.name}, y/{copy.name} \(a record-level index"
    with pytest.raises(CorruptTableError, match=both):
        table.bootstrap_index()
    copy.unlink()
    rows = pq.read_table(original)
    pq.write_table(pa.concat_tables([rows, rows.slice(1)]), original)
    with pytest.raises(CorruptTableError, match=rf"sample: 'b' in x/{original.name}, x/{original.name} \(a record"):
        table.bootstrap_index()
