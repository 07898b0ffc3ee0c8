from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli as library
from rli.index.reports import IndexStats, VerifyReport
from rli.model import CommitResult
from rli.services.clean import CleanResult
from rli.table.table import opened_table
from tests.cli.conftest import Rli
from tests.support.indexes import record_index
from tests.support.rollbacks import roll_back_in_part


def names(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_create_reports_what_it_made(rli: Rli, tmp_path: Path) -> None:
    made = rli(
        "create", "t", "--record-key", "a,b", "--record-key", "c", "--partition-by", "p", "--shards", "4", "--json"
    ).json
    assert made["record_key"] == ["a", "b", "c"]
    assert made["partition_by"] == ["p"]
    assert made["shards"] == 4
    assert made["location"] == f"{tmp_path}/t"
    assert made["index"] == f"lmdb://{tmp_path}/t/.hoodie/.rli/index"
    assert opened_table(library.open_table("t")).definition.properties.record_key_fields == ("a", "b", "c")


def test_create_takes_lease_place(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "id", "--lease", "table", "--index", f"lmdb://{tmp_path}/i")
    assert library.open_table("t").settings.lease is library.LeasePlace.TABLE
    rli("create", "u", "--record-key", "id")
    assert library.open_table("u").settings.lease is library.LeasePlace.INDEX
    assert "its own index" in rli("create", "v", "--record-key", "id", "--lease", "table", status=2).err
    assert "nowhere" in rli("create", "v", "--record-key", "id", "--lease", "nowhere", status=2).err


def test_create_takes_what_commits_survive(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id", "--durability", "os")
    assert not opened_table(library.open_table("t")).definition.storage.is_durable
    rli("create", "u", "--record-key", "id")
    assert opened_table(library.open_table("u")).definition.storage.is_durable
    assert "never" in rli("create", "v", "--record-key", "id", "--durability", "never", status=2).err


def test_create_twice_is_refused(rli: Rli, trips: str) -> None:
    refused = rli("create", trips, "--record-key", "id", status=2)
    assert refused.out == ""
    assert refused.err.startswith("error: there is a table already: path=trips")
    assert "Traceback" not in refused.err


def test_create_opens_a_table_that_agrees(rli: Rli, trips: str) -> None:
    same = ("create", trips, "--record-key", "id", "--partition-by", "city", "--ordering", "ts", "--if-exists", "open")
    assert rli(*same, "--json").json["record_key"] == ["id"]
    refused = rli(*same, "--lease", "table", "--no-maintenance", status=2).err
    assert "the table exists and differs from the arguments" in refused
    assert "lease=" in refused
    assert "target_file_size" not in refused
    assert len(rli("read", trips, "--json").json) == 3


def test_create_takes_sizes(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id", "--target-file-size", "2M")
    assert library.open_table("t").settings.target_file_size == 2 << 20
    assert "not a size" in rli("create", "t2", "--record-key", "id", "--target-file-size", "many", status=2).err


def test_read_explains_files_left_out(rli: Rli, trips: str) -> None:
    command = ("read", trips, "--where", "city = 'Oslo'", "--explain")
    explained = rli(*command, "--json").json
    total = explained["files"]["total"]
    assert explained["files"] == {"total": total, "pruned": {"partition_path": total - 1}, "read": 1}
    assert f"files: 1 of {total} read; left out by partition path {total - 1}" in rli(*command).out.splitlines()
    assert rli("read", trips, "--explain", "--json").json["filter"] is None
    rli("create", "unwritten", "--record-key", "id")
    assert "filter: city = 'Oslo'" in rli("read", "unwritten", "--where", "city = 'Oslo'", "--explain").out.splitlines()


def test_upsert_commits_each_file(rli: Rli, trips: str) -> None:
    Path("day3.csv").write_text("id,city,ts,fare\n007,Bergen,3,12\nk3,Oslo,3,8\n")
    lines = rli("upsert", trips, "day3.csv", "day1.jsonl", "--json").out.splitlines()
    first, second = (json.loads(line) for line in lines)
    assert set(first) == {"file", *names(CommitResult)}
    assert (first["file"], first["updated"], first["moved"]) == ("day3.csv", 2, 0)
    # One record is late, and the other is stored already.
    assert (second["file"], second["unchanged"], second["instant"]) == ("day1.jsonl", 2, None)


def test_piped_upsert_prints_plain_lines(rli: Rli, trips: str) -> None:
    Path("day3.csv").write_text("id,city,ts,fare\n007,Bergen,3,12\nk3,Oslo,3,8\n")
    outcome = rli("upsert", trips, "day3.csv")
    assert "records: 2 updated" in outcome.out.splitlines()
    assert "day3.csv: commit published" in outcome.err.splitlines()
    assert "\x1b" not in outcome.out + outcome.err


def test_upsert_can_refuse_moves(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "move.csv").write_text("id,city,ts,fare\nk3,Bergen,3,1\n")
    before = rli("timeline", trips).out
    assert "k3" in rli("upsert", trips, "move.csv", "--on-partition-change", "fail", status=2).err
    assert rli("timeline", trips).out == before
    kept = rli("upsert", trips, "move.csv", "--on-partition-change", "keep", "--json").json
    assert (kept["updated"], kept["moved"]) == (1, 0)
    assert rli("lookup", trips, "k3", "--json").json[0]["partition_path"] == "Oslo"


@pytest.mark.parametrize("name", ["d.jsonl", "d.json", "d.ndjson", "d.jsonl.gz", "d.csv", "d.csv.gz", "d.parquet"])
def test_upsert_takes_each_format(rli: Rli, trips: str, tmp_path: Path, name: str) -> None:
    record = {"id": "k9", "city": "Oslo", "ts": 9, "fare": 1.5}
    text = {
        "json": json.dumps([record], indent=1) if name == "d.json" else json.dumps(record) + "\n",
        "csv": "id,city,ts,fare\nk9,Oslo,9,1.5\n",
    }["csv" if ".csv" in name else "json"]
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist([record]), tmp_path / name)
    elif name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    else:
        (tmp_path / name).write_text(text)
    assert rli("upsert", trips, name, "--json").json["inserted"] == 1
    assert rli("read", trips, "--where", "id = 'k9'", "--json").json == [record]


def test_insert_leaves_known_records_unchanged(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("id,city,ts,fare\n007,Bern,9,9.0\nk9,Bern,9,9.0\nk9,Bern,8,8.0\n")
    done = rli("insert", trips, "more.csv", "--json").json
    assert (done["inserted"], done["unchanged"], done["updated"]) == (1, 1, 0)
    assert rli("lookup", trips, "007", "--json").json[0]["partition_path"] != "Bern"
    assert rli("read", trips, "--where", "id = 'k9'", "--json").json[0]["fare"] == 9.0
    assert "in the table already" in rli("insert", trips, "more.csv", "--on-existing", "fail", status=2).err


def test_upsert_keeps_missing_columns_if_told(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "less.csv").write_text("id,city,ts\n007,Bern,9\n")
    assert "--missing" in rli("upsert", "--help").out
    assert "lack columns" in rli("upsert", trips, "less.csv", status=2).err
    before = rli("read", trips, "--where", "id = '007'", "--json").json[0]["fare"]
    rli("upsert", trips, "less.csv", "--missing", "keep")
    row = rli("read", trips, "--where", "id = '007'", "--json").json[0]
    assert (row["city"], row["fare"]) == ("Bern", before)


def test_lookup_tells_where_keys_live(rli: Rli, trips: str) -> None:
    found = rli("lookup", trips, "007", "nope", "--json").json
    assert set(found[0]) == {"record_key", "partition_path", "file_id", "instant_time"}
    assert [row["partition_path"] for row in found] == ["Bergen", None]
    assert rli("lookup", trips, "007").out.splitlines()[1].startswith("007\tBergen\t")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_control_characters_are_escaped(rli: Rli, tmp_path: Path, form: tuple[str, ...]) -> None:
    key = "k\x1b]0;title\x07\x9b31m\u202e\x7f"
    table = library.create_table(tmp_path / "t", record_key="id", index="lmdb:" + f"//{tmp_path}/i")
    table.upsert(pa.table({"id": [key], "v": ["\x1b[2Jcleared"]}))
    table.close()
    shown = rli("read", "t", *form).out + rli("lookup", "t", key, *form).out
    refused = rli("read", "t", "--where", f"v = {key}", status=2).err
    assert "cleared" in shown
    assert "31m" in refused
    assert [sign for sign in shown + refused if sign not in "\n\t" and not sign.isprintable()] == []


def test_lookup_without_hits_has_status_1(rli: Rli, trips: str) -> None:
    assert rli("lookup", trips, "nope", "--json", status=1).json[0]["file_id"] is None


def test_get_prints_records_in_key_order(rli: Rli, trips: str) -> None:
    found = rli("get", trips, "k3", "nope", "007", "--columns", "id,city", "--json").json
    assert found == [{"id": "k3", "city": "Oslo"}, {"id": "007", "city": "Bergen"}]
    assert rli("get", trips, "007", "--columns", "city,id").out.splitlines() == ["city\tid", "Bergen\t007"]
    assert rli("get", trips, "007", "--json").json == rli("read", trips, "--where", "id = '007'", "--json").json
    assert rli("get", trips, "nope", "--json", status=1).json == []
    assert "found=" in rli("get", trips, "007", "--columns", "nope", status=2).err


def test_lookups_and_verify_respect_timeout(rli: Rli, trips: str) -> None:
    with library.open_table(trips) as table:
        roll_back_in_part(table, table.timeline()[-1].time)
    for command in (("lookup", trips, "007"), ("index", "verify", trips)):
        assert "being rolled back" in rli(*command, "--timeout", "0", status=2).err
    assert "finished the plan of a dead process" in rli("lookup", trips, "007").err


def test_delete_by_key_and_by_file(rli: Rli, trips: str, tmp_path: Path) -> None:
    assert rli("delete", trips, "007", "nope", "--json").json["deleted"] == 1
    (tmp_path / "gone.txt").write_text("k2\r\n\nnope\n")
    done = rli("delete", trips, "--file", "gone.txt", "--json").json
    assert sum(done["seconds"].values()) > 0
    assert {**done, "seconds": {}, "files_to_rewrite": ()} == {
        **dataclasses.asdict(CommitResult(None, 0, 0, 0, 1, 1, 0, 1, 0)),
        **{name: rli("timeline", trips, "--json").json[-1][name] for name in ["written_bytes"]},
        "instant": rli("timeline", trips, "--json").json[-1]["time"],
    }
    (tmp_path / "gone.csv").write_text("id,note\nk3,x\n")
    assert rli("delete", trips, "--file", "gone.csv", "--json").json["deleted"] == 1
    assert rli("read", trips, "--json").json == []


def test_duplicates_are_told_or_refused(rli: Rli, trips: str) -> None:
    Path("twice.csv").write_text("id,city,ts,fare\nk8,Oslo,3,1\nk8,Oslo,2,1\nk8,Oslo,1,1\n")
    assert "occur in several" in rli("upsert", trips, "twice.csv", "--on-duplicates", "fail", status=2).err
    assert "occur in several" in rli("insert", trips, "twice.csv", "--on-duplicates", "fail", status=2).err
    assert "1 inserted, 2 duplicates" in rli("upsert", trips, "twice.csv").out
    told = rli("upsert", trips, "twice.csv", "--json").json
    assert (told["inserted"], told["unchanged"], told["duplicates"]) == (0, 1, 2)
    assert rli("timeline", trips, "--json").json[-1]["duplicates"] == 2


def test_delete_needs_keys_or_a_file(rli: Rli, trips: str) -> None:
    assert "either keys or a file" in rli("delete", trips, status=2).err
    assert "either keys or a file" in rli("delete", trips, "k", "--file", "day2.csv", status=2).err
    assert "--where SQL" in rli("get", trips, status=2).err


def test_composite_keys_are_read_from_columns(rli: Rli, tmp_path: Path) -> None:
    rli("create", "t", "--record-key", "a,b")
    (tmp_path / "d.csv").write_text("a,b,v\n1,x,1\n1,y,2\n")
    rli("upsert", "t", "d.csv")
    assert rli("lookup", "t", "a:1,b:x", "--json").json[0]["file_id"]
    assert rli("delete", "t", "--file", "d.csv", "--json").json["deleted"] == 2


def test_read_filters_and_selects(rli: Rli, trips: str) -> None:
    assert rli("read", trips, "--where", "fare > 10", "--columns", "id,fare", "--json").json == [
        {"id": "007", "fare": 11.0}
    ]
    assert rli("read", trips, "--limit", "1").out.count("\n") == 2
    assert len(rli("read", trips, "--columns", "_hoodie_record_key", "--json").json) == 3


def test_read_as_of_an_instant(rli: Rli, trips: str) -> None:
    first = rli("timeline", trips, "--json").json[0]["time"]
    assert {row["id"]: row["city"] for row in rli("read", trips, "--as-of", first, "--json").json} == {
        "007": "Oslo",
        "k2": "Bergen",
    }


@pytest.mark.parametrize("name", ["o.parquet", "o.csv", "o.jsonl", "o.arrow"])
def test_read_writes_files_that_upsert_takes(rli: Rli, trips: str, name: str) -> None:
    report = rli("read", trips, "--output", name, "--json").json
    assert report == {"output": name, "records": 3}
    if not name.endswith(".arrow"):
        # Equal to what is stored, in every type.
        assert rli("upsert", trips, name, "--json").json["unchanged"] == 3


def test_read_refuses_unknown_format_early(rli: Rli) -> None:
    assert "does not tell its format" in rli("read", "nowhere", "--output", "o.xlsx", status=2).err


def test_timeline_tells_what_commits_did(rli: Rli, trips: str) -> None:
    rows = rli("timeline", trips, "--json").json
    assert [
        (row["operation"], row["inserted"], row["updated"], row["moved"], row["deleted"], row["files"]) for row in rows
    ] == [("UPSERT", 2, 0, 0, 0, 2), ("UPSERT", 1, 0, 1, 0, 2)]
    assert all(row["seconds"] > 0 and "@" in row["writer"] for row in rows)
    assert all((row["attempts"], row["conflicts"]) == (1, 0) and row["phases"]["write"] > 0 for row in rows)
    assert rli("timeline", trips, "--limit", "1", "--json").json == rows[1:]


def test_caller_transaction_is_committed_once(rli: Rli, trips: str) -> None:
    (trips_file := Path("day3.csv")).write_text("id,city,ts,fare\nk9,Oslo,3,1\n")
    named = ("--transaction", "a:b:7", "--metadata", "source=day=3", "--json")
    first = rli("upsert", trips, str(trips_file), *named).json
    assert rli("delete", trips, "k9", "--transaction", "a:b:8", "--json").json["deleted"] == 1
    repeated = rli("upsert", trips, str(trips_file), *named).json
    assert {**repeated, "seconds": {}, "repeated": False} == {**first, "seconds": {}}
    assert (first["repeated"], repeated["repeated"]) == (False, True)
    assert "(repeated: " in rli("upsert", trips, str(trips_file), *named[:-1]).out
    assert "committed=upsert repeat=delete" in rli("delete", trips, "k9", *named, status=2).err
    trips_file.write_text("id,city,ts,fare\nk9,Oslo,3,2\n")
    assert "other records" in rli("upsert", trips, str(trips_file), *named, status=2).err
    assert "committed=8" in rli("upsert", trips, str(trips_file), "--transaction", "a:b:6", status=2).err
    rows = rli("timeline", trips, "--json").json
    assert [row["transaction"] for row in rows[-2:]] == [["a:b", 7], ["a:b", 8]]
    assert rows[-2]["metadata"] == {"source": "day=3"}
    assert len(rows) == 4
    assert "not a transaction" in rli("delete", trips, "k9", "--transaction", "b:", status=2).err
    assert "a single commit" in rli("upsert", trips, "day1.jsonl", "day3.csv", "--transaction", "b:1", status=2).err


def test_rollback_of_the_last_commit(rli: Rli, trips: str) -> None:
    last = rli("timeline", trips, "--json").json[-1]["time"]
    assert rli("rollback", trips, "last", "--json").json["instant"] == last
    assert rli("lookup", trips, "007", "--json").json[0]["partition_path"] == "Oslo"
    assert rli("index", "verify", trips, "--json").json["records"] == 2
    assert "only the last completed commit" in rli("rollback", trips, last, status=2).err


def test_a_savepoint_is_restored(rli: Rli, trips: str) -> None:
    first, last = (item["time"] for item in rli("timeline", trips, "--json").json)
    assert rli("savepoint", trips, first, "--comment", "day 1", "--json").json == {"instant": first, "saved": True}
    assert rli("savepoint", trips).out == f"savepoint: {last}\n"
    assert "a savepoint keeps the commit" in rli("restore", trips, first, status=2).err
    assert rli("savepoint", trips, last, "--delete").out == f"savepoint removed: {last}\n"
    assert "give its INSTANT" in rli("savepoint", trips, "--delete", status=2).err
    done = rli("restore", trips, first, "--json").json
    assert set(done) == names(library.RestoreResult)
    assert (done["restored_to"], done["undone"]) == (first, [last])
    assert [row["id"] for row in rli("read", trips, "--json").json] == ["k2", "007"]
    assert "none, no later commit" in rli("restore", trips, first).out
    assert "no completed commit of this time" in rli("restore", trips, last, status=2).err


def test_rollback_in_an_empty_table(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id")
    assert "no commit to roll back" in rli("rollback", "t", "last", status=2).err


def test_index_commands_print_report_fields(rli: Rli, trips: str) -> None:
    assert set(rli("index", "stats", trips, "--json").json) == names(IndexStats)
    found = rli("index", "verify", trips, "--json").json
    assert set(found) == names(VerifyReport)
    assert (found["records"], found["missing"]) == (3, 0)


def test_verify_finds_and_repair_mends(rli: Rli, trips: str) -> None:
    table = library.open_table(trips)
    other = record_index(table).get(pa.array(["k3"]))
    record_index(table).put(pa.array(["stray"]), other)
    table.close()
    differing = rli("index", "verify", trips, status=1)
    assert "result: index and table differ" in differing.out
    assert "what to do: rli index repair trips" in differing.out
    assert rli("doctor", trips, "--json", status=1).json["problems"] == 1
    assert rli("index", "repair", trips, "--json").json["dangling"] == 1
    assert "result: index and table agree" in rli("index", "verify", trips).out


def test_drop_and_bootstrap(rli: Rli, trips: str, tmp_path: Path) -> None:
    assert rli("index", "drop", trips, "--json").json["url"].startswith("lmdb://")
    missing = rli("lookup", trips, "007", status=2)
    assert "rli index bootstrap trips" in missing.err
    elsewhere = f"lmdb://{tmp_path}/elsewhere"
    assert rli("index", "bootstrap", trips, "--index", elsewhere, "--shards", "2", "--json").json == {
        "entries": 3,
        "url": elsewhere,
    }
    assert rli("index", "stats", trips, "--json").json["shards"] == 2
    assert rli("index", "sync", trips, "--json").json["applied"] == []


def test_an_unknown_table(rli: Rli) -> None:
    for command in (["read", "no"], ["lookup", "no", "k"], ["timeline", "no"], ["index", "verify", "no"]):
        refused = rli(*command, status=2)
        assert refused.err.startswith("error: ")
        assert refused.out == ""


def test_spark_upserts_say_what_is_missing(rli: Rli, trips: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "--engine local" in rli("upsert", trips, "day2.csv", "--engine", "spark", status=2).err


def test_archive_reports_what_left(rli: Rli, trips: str) -> None:
    first, last = (item["time"] for item in rli("timeline", trips, "--json").json)
    assert rli("archive", trips).out.splitlines()[:2] == ["instants archived: 0", f"oldest active commit: {first}"]
    done = rli("archive", trips, "--keep", "1", "--json").json
    assert set(done) == names(library.ArchiveResult)
    assert (done["instants_archived"], done["earliest_active"]) == (1, last)
    assert [item["time"] for item in rli("timeline", trips, "--json").json] == [last]
    assert "left the active timeline" in rli("read", trips, "--as-of", first, status=2).err


def test_cluster_reports_file_counts(rli: Rli, tmp_path: Path) -> None:
    library.create_table("t", record_key="id", small_file_size=0).close()
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "b.csv").write_text("id\n2\n")
    rli("upsert", "t", "a.csv", "b.csv")
    none = rli("cluster", "t", "--smaller-than", "1K")
    assert "instant: none, there was nothing to do" in none.out.splitlines()
    done = rli("cluster", "t", "--json").json
    assert set(done) == names(CommitResult)
    assert (done["files_replaced"], done["files_created"]) == (2, 1)
    assert rli("timeline", "t", "--json").json[-1]["operation"] == "CLUSTER"
    assert rli("rollback", "t", done["instant"], "--json").json["instant"] == done["instant"]
    outcome = rli("cluster", "t")
    assert "base files replaced: 2" in outcome.out.splitlines()
    assert "t: commit published" in outcome.err.splitlines()
    rli("index", "verify", "t")
    assert "not a size" in rli("cluster", "t", "--smaller-than", "much", status=2).err
    assert rli("cluster", "t", "--sort-by", "id % 2", "--sort-by", "id", "--json").json["instant"] is None
    assert "nowhere" in rli("cluster", "t", "--sort-by", "nowhere", "--smaller-than", "1G", status=2).err
    assert "smaller_than must be at least 1" in rli("cluster", "t", "--smaller-than", "0", status=2).err


def test_damaged_lease_is_shown_and_broken(rli: Rli, trips: str) -> None:
    assert "nobody" in rli("lease", "show", trips).out
    with record_index(library.open_table(trips)).store as store:
        assert store.compare_and_set("lease", None, b"garbage")
    assert "rli lease break" in rli("delete", trips, "a", status=2).err
    assert "rli lease break" in rli("doctor", trips, status=1).out
    assert "damaged" in rli("lease", "show", trips, "--json").json["damage"]
    assert "Break it?" in rli("lease", "break", trips, status=2).err
    rli("lease", "break", trips, "--yes")
    rli("doctor", trips)


def test_clean_reports_what_it_removed(rli: Rli, trips: str) -> None:
    rli("upsert", trips, "day1.jsonl")
    first = library.open_table(trips).timeline()[0].time
    for ts in range(3, 6):
        Path("next.csv").write_text(f"id,city,ts,fare\n007,Bergen,{ts},12\nk3,Oslo,{ts},8\n")
        rli("upsert", trips, "next.csv")
    rli("delete", trips, "007")
    done = rli("clean", trips, "--keep", "1", "--json").json
    assert set(done) == names(CleanResult)
    assert done["files_deleted"] > 0
    assert done["journals_deleted"] > 0
    assert "were cleaned" in rli("read", trips, "--as-of", first, status=2).err
    assert "none, no file to remove" in rli("clean", trips, "--keep", "1").out
    rli("index", "verify", trips)
    rli("clean", trips, "--keep", "0", status=2)
