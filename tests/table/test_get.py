"""Point reads: the records of some keys are those that a filtered read finds, and no other file is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rli import (
    CorruptIndexError,
    CorruptTableError,
    IndexNotReadyError,
    InvalidInputError,
    InvalidKeyError,
    SchemaError,
    Table,
    create_table,
    open_table,
)
from rli.hudi.base_file_reader import BaseFileReader
from rli.hudi.meta_columns import META_COLUMNS
from rli.hudi.properties import Key, save_properties
from rli.hudi.timeline.timeline import Timeline
from rli.locations import LocationUpdate
from rli.storage import Storage, StoredFile
from rli.table.table import opened_table
from rli.view.definition import TableDefinition
from rli.view.file_system_view import FileSystemView
from tests.support.indexes import record_index
from tests.support.tables import commit_version, records, rewrite_in_row_groups, turn_into_foreign_commit

CITIES = ("x", "y", "z")


@pytest.fixture
def filled(trips: Table) -> Table:
    """Thirty records in three partitions."""
    trips.upsert(records(*((f"k{number:02}", CITIES[number % 3], 1, float(number)) for number in range(30))))
    return trips


def test_records_come_once_in_key_order(filled: Table) -> None:
    found = filled.get(["k07", "nobody", "k29", "k00", "k07"], columns=["id", "v"])
    assert found.to_pylist() == [{"id": "k07", "v": 7.0}, {"id": "k29", "v": 29.0}, {"id": "k00", "v": 0.0}]
    assert filled.get(["nobody"]) == filled.read().schema.empty_table() == filled.get([])


def test_meta_columns_are_returned_on_demand(filled: Table) -> None:
    assert filled.get(["k07"]) == filled.read(filters=[("id", "=", "k07")])
    names = ["_hoodie_record_key", "v", "_hoodie_partition_path"]
    assert filled.get(["k07"], columns=names) == filled.read(columns=names, filters=[("id", "=", "k07")])


@pytest.mark.parametrize(
    "filters",
    [
        "id like '%7' and length(city) = 1",
        [("id", "!=", "k07")],
        pc.starts_with(pc.field("id"), "k0") & (pc.field("_hoodie_record_key") != "k07"),
        None,
    ],
)
def test_filters_choose_among_records(filters: object, filled: Table) -> None:
    keys = ["k07", "nobody", "k03"]
    expected = filled.read(columns=["city", "id"], filters=filters).to_pylist()
    found = filled.get(keys, ["city"], filters).to_pylist()
    assert found == [{"city": row["city"]} for key in keys for row in expected if row["id"] == key]
    assert filled.get(keys, filters="false").num_rows == 0


@pytest.mark.parametrize("columns", [[], ["v", "v"], ["v", "id", "v"]])
def test_empty_and_repeated_columns_match_read(columns: list[str], filled: Table) -> None:
    found = filled.get(["k07"], columns=columns)
    assert found == filled.read(columns=columns, filters=[("id", "=", "k07")])
    assert found.num_rows == 1
    assert filled.get(["nobody"], columns=columns).column_names == columns


@pytest.mark.parametrize("form", [pa.array, lambda keys: pa.chunked_array([keys[:1], keys[1:]]), tuple])
def test_keys_in_any_form(form: Callable[[list[str]], object], filled: Table) -> None:
    assert filled.get(form(["k07", "k08"]))["id"].to_pylist() == ["k07", "k08"]


def test_keys_as_columns(filled: Table) -> None:
    keys = pa.table({"id": ["k07", "k08"], "other": [1, 2]})
    assert filled.get(keys) == filled.get(keys.to_batches()[0]) == filled.get(["k07", "k08"])
    pandas = pytest.importorskip("pandas")
    assert filled.get(pandas.DataFrame({"id": ["k07", "k08"]})) == filled.get(keys)
    assert filled.get(pandas.Series(["k07", "k08"])) == filled.get(keys)


def test_composite_keys(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key=["a", "b"], index=memory_url)
    rows = pa.table({"a": [1, 1, 2], "b": ["x", "", "x"], "v": [1, 2, 3]})
    table.upsert(rows)
    assert table.get(["a:2,b:x", "a:1,b:__empty__"])["v"].to_pylist() == [3, 2]
    assert table.get(rows.select(["a", "b"]).slice(1))["v"].to_pylist() == [2, 3]


def test_no_other_file_is_opened(filled: Table) -> None:
    (kept,) = filled.scan(filters="id = 'k07' and city = 'y'").files()
    for file in filled.scan().files():
        if file != kept:
            Path(file).write_bytes(b"not Parquet")
    assert filled.get(["k07", "k10", "nobody"])["v"].to_pylist() == [7.0, 10.0]


@pytest.mark.parametrize("ordered", [True, False])
def test_row_groups(tmp_path: Path, memory_url: str, *, ordered: bool) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    keys = [f"é{number * (1 if ordered else 37) % 100:02}" for number in range(100)]
    table.upsert(pa.table({"id": keys, "number": range(100)}))
    rewrite_in_row_groups(table, 7)
    (file,) = table.scan().files()
    assert pq.ParquetFile(file).num_row_groups > 10
    asked = [keys[position] for position in (99, 3, 50, 51, 0, 7)]
    assert table.get([*asked, "é", "zz"])["number"].to_pylist() == [99, 3, 50, 51, 0, 7]
    assert table.get(keys)["number"].to_pylist() == list(range(100))


def test_random_key_opens_single_row_group(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    keys = [f"é{number * 37 % 500:03}" for number in range(500)]
    table.upsert(pa.table({"id": keys, "number": range(500)}))
    rewrite_in_row_groups(table, 50)
    (file,) = table.scan().files()
    metadata = pq.ParquetFile(file).metadata
    assert metadata.num_row_groups == 10
    content = bytearray(Path(file).read_bytes())
    for row_group in set(range(10)) - {6}:
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(row_group).column(number)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    Path(file).write_bytes(content)
    found = [key for key in keys[300:350] if not _is_damaged(table, key)]
    # A filter takes one in forty other keys for one of its own.
    assert len(found) > 25
    assert table.get([found[0]])["number"].to_pylist() == [keys.index(found[0])]


def _is_damaged(table: Table, key: str) -> bool:
    try:
        table.get([key])
    except CorruptTableError:
        return True
    return False


def test_a_column_that_old_files_lack(filled: Table) -> None:
    filled.upsert(pa.table({"id": ["new"], "city": ["w"], "ts": [1], "v": [0.0], "added": ["here"]}))
    assert filled.get(["k07", "new"], columns=["added"])["added"].to_pylist() == [None, "here"]


def test_a_table_without_meta_columns(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key=["id", "part"], index=memory_url)
    table.upsert(pa.table({"id": ["a", "b"], "part": [1, 2], "v": [1, 2]}))
    for file in table.scan().files():
        stored = pq.read_table(file)
        pq.write_table(stored.drop_columns(list(META_COLUMNS)), file)
    definition = opened_table(table).definition.reloaded()
    save_properties(definition.storage, definition.properties.changed({Key.POPULATE_META_FIELDS: "false"}))
    table.bootstrap_index()
    assert table.get(["id:b,part:2", "id:a,part:1", "id:a,part:2"])["v"].to_pylist() == [2, 1]


def test_deleted_and_unwritten_records_are_absent(trips: Table) -> None:
    assert trips.get(["a"]).num_rows == 0
    commit_version(trips, 0)
    trips.delete(["a"])
    assert trips.get(["a", "m"])["id"].to_pylist() == ["m"]


@pytest.mark.parametrize(
    ("keys", "columns", "error"),
    [
        ("a", None, InvalidInputError),
        (5, None, InvalidInputError),
        (None, None, InvalidInputError),
        ([None], None, InvalidKeyError),
        ([7], None, InvalidKeyError),
        (pa.table({"other": ["a"]}), None, SchemaError),
        (["a"], "id", InvalidInputError),
        (["a"], ["unknown"], SchemaError),
    ],
)
def test_misuse(keys: object, columns: list[str], error: type[Exception], filled: Table) -> None:
    with pytest.raises(error):
        filled.get(keys, columns)


def _move_and_clean(table: Table) -> None:
    for version in (1, 2):
        commit_version(table, version)
    assert table.clean(keep_commits=1).files_deleted


def _roll_back(table: Table) -> None:
    table.rollback(table.timeline()[-1].time)


def _delete(table: Table) -> None:
    table.delete(["a", "n0"])


@pytest.mark.invariant("P16")
@pytest.mark.parametrize("work", [_move_and_clean, _roll_back, _delete])
@pytest.mark.parametrize("when", ["before", "after"])
def test_commits_between_lookup_and_read(
    work: Callable[[Table], None], when: str, trips: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the look-up are gone, or hold other records, before or after they are listed."""
    commit_version(trips, -1)
    commit_version(trips, 0)
    of_groups, waiting = FileSystemView.of_groups, [work]

    def delayed(slices: FileSystemView, groups: object) -> object:
        for other in waiting[:] if when == "before" else ():
            waiting.clear()
            other(open_table(trips.location))
        found = of_groups(slices, groups)  # type: ignore[arg-type]
        for other in waiting[:]:
            waiting.clear()
            other(open_table(trips.location))
        return found

    keys = ["a", "m", "n-1", "n0", "n1", "n2"]
    states = [trips.get(keys)]
    monkeypatch.setattr(FileSystemView, "of_groups", delayed)
    found = trips.get(keys)
    assert waiting == []
    states.append(trips.get(keys))
    assert states[0] != states[1]
    assert found in states


def test_reads_beside_writers_show_single_commit(trips: Table) -> None:
    """Two records change together, one of them moves; commits that came before a read are seen."""
    commit_version(trips, 0)
    committed, problems = [0], list[BaseException]()

    def write() -> None:
        try:
            writer = open_table(trips.location)
            for version in range(1, 21):
                rows = [("a", "x", version, float(version)), ("m", "xy"[version % 2], version, float(version))]
                writer.upsert(records(*rows))
                committed[0] = version
                if version % 5 == 0:
                    writer.clean(keep_commits=1)
        except BaseException as error:
            problems.append(error)
            raise

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        before = committed[0]
        found = trips.get(["m", "a"])
        versions = found["ts"].to_pylist()
        assert found["id"].to_pylist() == ["m", "a"]
        assert versions[0] == versions[1] >= before
    thread.join()
    assert not problems


def test_a_key_twice_in_a_file(tmp_path: Path) -> None:
    """As Hudi's bulk inserts may store it: the first record is given, and other keys are found behind it."""
    keys = [f"k{number:05}" for number in range(40_000)]
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", index="global-simple:")
    table.insert(pa.table({"id": keys, "city": ["x"] * len(keys), "v": range(len(keys))}))
    [file] = Path(table.location).glob("x/*.parquet")
    stored = pq.ParquetFile(file).read()
    pq.write_table(pa.concat_tables([stored.slice(0, 1), stored]), file)
    assert table.get(["k00000"], ["v"]).to_pylist() == [{"v": 0}]
    assert table.get(["k00000", "k30000"], ["v"])["v"].to_pylist() == [0, 30_000]


def test_misplaced_key_is_index_damage(filled: Table) -> None:
    filled.upsert(records(("new", "x", 1, 0.0)))
    group = filled.lookup(["k07"]).to_pylist()[0]
    elsewhere = next(other for other in opened_table(filled).snapshot().slices if other.file_id != group["file_id"])
    log = record_index(filled).log.refresh()
    record_index(filled).apply(LocationUpdate.placing(pa.array(["k07"]), elsewhere), log, log.head)
    with pytest.raises(CorruptIndexError, match=r"does not hold them.*k07"):
        filled.get(["k00", "k07"])


def test_missing_or_damaged_file_is_named(filled: Table) -> None:
    (file,) = filled.scan(filters="id = 'k07' and city = 'y'").files()
    Path(file).write_bytes(b"PAR1")
    with pytest.raises(CorruptTableError, match=Path(file).name):
        filled.get(["k07"])
    Path(file).unlink()
    with pytest.raises(CorruptTableError, match=Path(file).name):
        filled.get(["k07"])
    assert filled.get(["k00"]).num_rows == 1


def test_known_partition_is_not_listed_again(trips: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    trips.upsert(records(*((f"k{number}", "x", 1, 1.0) for number in range(9))))
    listed, list_files = list[str](), Storage.list_files

    def noting(storage: Storage, path: str = "", *, recursive: bool = False) -> list[StoredFile]:
        listed.append(path)
        return list_files(storage, path, recursive=recursive)

    monkeypatch.setattr(Storage, "list_files", noting)
    for version in (1, 2):
        assert [trips.get([f"k{number}"])["ts"].to_pylist() for number in range(9)] == [[version]] * 9
        assert open_table(trips.location).get(["k7"])["ts"].to_pylist() == [version]
        assert listed.count("x") == 1
        open_table(trips.location).upsert(records(*((f"k{number}", "x", 2, 2.0) for number in range(9))))
        listed.clear()


@pytest.mark.invariant("P16")
def test_known_partition_takes_one_timeline(trips: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier read listed under the same timeline lacks nothing; a key that is nowhere is asked of two timelines."""
    trips.upsert(records(("a", "x", 1, 1.0)))
    trips.get(["a"])
    loads, load_timeline = [0], TableDefinition.load_timeline

    def counting(table: TableDefinition) -> Timeline:
        loads[0] += 1
        return load_timeline(table)

    monkeypatch.setattr(TableDefinition, "load_timeline", counting)
    assert trips.get(["a"])["ts"].to_pylist() == [1]
    assert loads == [1]
    assert trips.get(["nobody"]).num_rows == 0
    assert loads == [3]


@pytest.mark.invariant("P16")
def test_commit_hidden_beside_read_is_noticed(trips: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo hides a commit before it removes its files, so these can be read still."""
    trips.upsert(records(("a", "x", 1, 1.0)))
    instant = trips.upsert(records(("a", "x", 2, 2.0))).instant
    trips.get(["a"])
    close, completed = BaseFileReader.close, Path(trips.location, ".hoodie", f"{instant}.commit")

    def hiding(reader: BaseFileReader) -> None:
        if completed.exists():
            completed.rename(tmp_path / "hidden")
        close(reader)

    monkeypatch.setattr(BaseFileReader, "close", hiding)
    with pytest.raises(IndexNotReadyError, match="being rolled back"):
        trips.get(["a"], timeout=0.1)


@pytest.mark.invariant("P41")
def test_file_lost_after_get_is_named(trips: Table, tmp_path: Path) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    trips.upsert(records(("a", "x", 2, 2.0)))
    assert trips.get(["a", "b"])["ts"].to_pylist() == [2, 1]
    [lost] = (Path(file) for file in trips.scan(filters="city = 'x'").files())
    saved = lost.rename(tmp_path / "saved")
    for table in (trips, open_table(trips.location)):
        with pytest.raises(CorruptTableError, match=f"missing: file=x/{lost.name} .*restore it from a backup"):
            table.get(["a"])
        assert table.get(["b"])["ts"].to_pylist() == [1]
    saved.rename(lost)
    assert trips.get(["a"])["ts"].to_pylist() == [2]


def test_file_that_is_back_is_read(trips: Table, tmp_path: Path) -> None:
    """Nothing tells that a file is lost behind a commit of another engine: what was listed without it is not kept."""
    trips.upsert(records(("a", "x", 1, 1.0)))
    instants = [trips.upsert(records(("a", "x", 2, 2.0))).instant, trips.upsert(records(("b", "y", 1, 1.0))).instant]
    for instant in instants:
        turn_into_foreign_commit(trips, str(instant))
    [lost] = Path(trips.location).glob(f"x/*{instants[0]}*.parquet")
    saved = lost.rename(tmp_path / "saved")
    trips.get(["a"])
    saved.rename(lost)
    assert trips.get(["a"])["ts"].to_pylist() == [2]
