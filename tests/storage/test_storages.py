"""What tables rely on, of a local folder and of an object store alike."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore

from rli import LeaseLostError, SettingsError, StoreUnavailableError, UnsupportedTableError, create_table, open_table
from rli.publication.fence import Fence, remove_unfinished_drafts, settle_prepared
from rli.storage import Storage
from rli.storage.object_deletions import delete_objects
from rli.table.table import opened_table
from rli.view import paths
from tests.support.object_store import ObjectStore
from tests.support.requests import at_requests
from tests.support.tables import records, rows_of

NAMES = ("a b", "50%25", "ä日", "[x]", "{y}", "a#b?c*", "k=v+w", "q'\"", "t~", ".hidden")


@pytest.fixture(params=["local", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return Storage(str(tmp_path / "t"))
    server: ObjectStore = request.getfixturevalue("object_store")
    return Storage(f"s3://{server.new_bucket()}/some/t", server.options)


@pytest.fixture
def named(storage: Storage) -> Storage:
    """With the folder ``x``, in which drafts get their names."""
    storage.make_folder("x")
    return storage


def test_files_work_under_any_name(storage: Storage) -> None:
    for name in NAMES:
        storage.write_bytes(f"f/{name}/{name}", name.encode())
        storage.write_bytes(f"f/{name}/{name}", b"again")
    assert [file.path for file in storage.list_files("f", recursive=True)] == sorted(
        f"f/{name}/{name}" for name in NAMES
    )
    assert storage.list_folders("f") == sorted(f"f/{name}" for name in NAMES)
    assert storage.list_files("f") == []
    for name in NAMES:
        assert storage.read_bytes(f"f/{name}/{name}") == b"again"
        assert [(file.name, file.size) for file in storage.list_files(f"f/{name}")] == [(name, 5)]
    storage.delete_files([f"f/{NAMES[0]}/{NAMES[0]}", "f/nobody"])
    assert storage.read_bytes(f"f/{NAMES[0]}/{NAMES[0]}") is None
    storage.delete_folder("f")
    assert not storage.exists("f")
    assert storage.list_files(recursive=True) == []


def test_discarding_files_tolerates_missing_files(storage: Storage) -> None:
    for name in ("f/1", "f/2", "kept"):
        storage.write_bytes(name, b"")
    storage.discard_files([])
    storage.discard_files(["f/1", "f/nobody", "nobody", "f/2"])
    assert [file.path for file in storage.list_files(recursive=True)] == ["kept"]


def test_objects_are_deleted_despite_missing_objects(tmp_path: Path) -> None:
    """S3 says nothing about such a one; others do, and leave those behind it."""
    store: Any = LocalStore(tmp_path)
    for key in ("1", "2"):
        obstore.put(store, key, b"")
    with pytest.raises(FileNotFoundError):
        obstore.delete(store, ["gone", "1"])
    delete_objects(store, ["1", "gone", "2"])
    delete_objects(store, ["1"])
    assert obstore.list(store).collect() == []


def test_dead_writer_files_take_few_requests(object_store: ObjectStore) -> None:
    """None of it needs to be there: the writer may have died while it waited for the lease."""
    location = f"s3://{object_store.new_bucket()}/t"
    dead = "20240101000000000"
    with create_table(location, record_key="id", index="memory:dead", storage_options=object_store.options) as table:
        storage = opened_table(table).definition.storage
        listed = [f"{uuid4()}-0_{number}-0-0_{dead}.parquet" for number in range(100)]
        storage.write_bytes(f".hoodie/.rli/work/{dead}/manifest.json", json.dumps(listed).encode())
        for name in listed[:3]:
            storage.write_bytes(name, b"half")
        sent: list[str] = []
        with at_requests(sent.append):
            table.upsert(records(("a", "x", 1, 0.1)))
        assert sent.count("delete") < 50
        assert len(rows_of(table)) == 1
        assert not {file.path for file in storage.list_files(recursive=True)}.intersection(listed)
        table.drop_index()


def test_folder_is_no_name_prefix(storage: Storage) -> None:
    for name in ("part/f", "part2/f", "part.f"):
        storage.write_bytes(name, b"")
    assert [file.path for file in storage.list_files("part", recursive=True)] == ["part/f"]
    assert storage.exists("part")
    assert not storage.exists("par")
    storage.delete_folder("part")
    assert [file.path for file in storage.list_files(recursive=True)] == ["part.f", "part2/f"]


@pytest.mark.parametrize("change", ["write_bytes", "create"])
def test_paused_writer_survives_removed_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    storage = Storage(str(tmp_path))
    name_call = {"write_bytes": "replace", "create": "link"}[change]
    give_name = getattr(os, name_call)

    def paused(source: str, target: str) -> None:
        monkeypatch.setattr(os, name_call, give_name)
        os.utime(source, (0, 0))
        storage.remove_temporaries()
        assert not os.path.exists(source)
        give_name(source, target)

    monkeypatch.setattr(os, name_call, paused)
    getattr(storage, change)("f/x", b"content")
    assert storage.read_bytes("f/x") == b"content"
    assert [file.path for file in storage.list_files(recursive=True)] == ["f/x"]


def test_removed_folder_is_not_recreated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(str(tmp_path))
    link = os.link

    def displaced(source: str, target: str) -> None:
        storage.delete_folder("f")
        link(source, target)

    monkeypatch.setattr(os, "link", displaced)
    with pytest.raises(FileNotFoundError):
        storage.create("f/x", b"content")
    assert storage.list_files(recursive=True) == []


def test_one_of_many_creates_a_file(storage: Storage) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(5):
            contents = [b"%d" % at for at in range(8)]
            created = list(threads.map(lambda content, at=number: storage.create(f"c/{at}", content), contents))
            assert created.count(True) == 1
            assert storage.read_bytes(f"c/{number}") == contents[created.index(True)]


def test_moved_file_replaces_and_leaves_origin(storage: Storage) -> None:
    storage.write_bytes("work/f", b"new")
    storage.write_bytes("x/f", b"old")
    storage.move("work/f", "x/f")
    assert storage.read_bytes("x/f") == b"new"
    assert not storage.exists("work/f")
    with pytest.raises(FileNotFoundError):
        storage.move("work/f", "x/f")
    assert storage.read_bytes("x/f") == b"new"


@pytest.mark.invariant("P1")
def test_draft_is_named_once_without_overwriting(named: Storage) -> None:
    assert named.publish(named.draft("work/commit", b"one"), "x/one")
    assert named.read_bytes("x/one") == b"one"
    assert not named.publish(named.draft("work/other", b"two"), "x/one")
    assert named.read_bytes("x/one") == b"one"
    assert named.retract("work/other")


def test_retracted_draft_is_not_published(named: Storage) -> None:
    for take_back in (named.retract, named.settle):
        draft = named.draft("work/commit", b"one")
        take_back("work/commit")
        with pytest.raises(FileNotFoundError):
            named.publish(draft, "x/one")
        assert named.list_files(recursive=True) == []


@pytest.mark.invariant("P37")
def test_unretracted_draft_replaces_file(named: Storage) -> None:
    named.write_bytes("x/settings", b"one")
    named.replace(named.draft("work/next", b"two"), "x/settings")
    assert named.read_bytes("x/settings") == b"two"
    named.delete_files(["work/next"])
    for take_back in (named.retract, named.settle):
        draft = named.draft("work/next", b"three")
        take_back("work/next")
        with pytest.raises(FileNotFoundError):
            named.replace(draft, "x/settings")
        assert named.read_bytes("x/settings") == b"two"


def test_draft_has_single_publisher_or_retractor(named: Storage) -> None:
    def publish(number: int) -> bool:
        try:
            return named.publish(drafts[number], f"x/{number}")
        except FileNotFoundError:
            return False

    drafts = [named.draft(f"work/{number}", b"content") for number in range(12)]
    with ThreadPoolExecutor(4) as threads:
        outcomes = [
            (threads.submit(publish, number), threads.submit(named.settle, f"work/{number}"))
            for number in range(len(drafts))
        ]
        for number, (published, settled) in enumerate(outcomes):
            settled.result()
            assert published.result() == named.exists(f"x/{number}")


def test_large_files_are_transferred_in_parts(storage: Storage) -> None:
    rows = pa.table({"n": pa.array(range(3_000_000))})
    storage.make_folder("big")
    with storage.filesystem.open_output_stream(storage.full_path("big/f.parquet")) as sink:
        pq.write_table(rows, sink, compression="none", use_dictionary=False, row_group_size=500_000)
    with storage.filesystem.open_input_file(storage.full_path("big/f.parquet")) as source:
        assert pq.ParquetFile(source).read_row_group(5, columns=["n"]).equals(rows.slice(2_500_000))
    [file] = storage.list_files("big")
    assert len(storage.read_bytes("big/f.parquet") or b"") == file.size > 3_000_000 * 8


def test_ranges_of_a_file_are_read(storage: Storage) -> None:
    content = bytes(range(256)) * 20_000
    storage.write_bytes("f", content)
    ranges = [range(8), range(8, 16), range(4_000_000, 4_100_000), range(len(content) - 1, len(content))]
    assert [part.to_pybytes() for part in storage.read_ranges("f", ranges)] == [
        content[part.start : part.stop] for part in ranges
    ]
    with pytest.raises(FileNotFoundError):
        storage.read_ranges("g", ranges)


def test_pickled_storage_hides_secrets(storage: Storage) -> None:
    storage.write_bytes("f", b"1")
    copy = pickle.loads(pickle.dumps(storage))  # noqa: S301  (made here)
    assert copy == storage
    assert copy.read_bytes("f") == b"1"
    assert "anything" not in repr(storage)


FORKING_PROGRAM = """
import os, sys
import rli
from rli.storage import Storage

def read():
    return Storage(sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:])).read_bytes("f")

def in_child(expected):
    child = os.fork()
    if not child:
        try:
            os._exit(0 if read() == b"1" else 1)
        except rli.StoreUnavailableError:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == expected

in_child(0)
assert read() == b"1"
in_child(2)
"""


def test_fork_after_object_store_is_refused(object_store: ObjectStore) -> None:
    """It would wait for ever for threads that it does not have."""
    storage = Storage(f"s3://{object_store.new_bucket()}/t", object_store.options)
    storage.write_bytes("f", b"1")
    options = [f"{name}={value}" for name, value in object_store.options.items()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-c", FORKING_PROGRAM, storage.location, *options]
    subprocess.run(program, check=True, env=environment)


SYNCING_PROGRAM = """
import os, signal, sys
from rli.storage import Storage

storage = Storage(sys.argv[1])
storage.flush(["a", "b"])
child = os.fork()
signal.alarm(60)
storage.flush(["a", "b"])
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_forked_process_syncs_files(tmp_path: Path) -> None:
    """The parent has kept threads for that, which the child lacks."""
    for name in "ab":
        (tmp_path / name).write_text("1")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", SYNCING_PROGRAM, str(tmp_path)], check=True, env=environment)


def test_markers_of_folders_are_no_files(object_store: ObjectStore) -> None:
    """Hadoop leaves empty objects whose names end with a slash."""
    bucket = object_store.new_bucket()
    object_store.put(bucket, "t/p/", b"")
    object_store.put(bucket, "t/p/f", b"1")
    storage = Storage(f"s3://{bucket}/t", object_store.options)
    assert [file.path for file in storage.list_files("p")] == ["p/f"]
    assert storage.list_folders() == ["p"]


def test_foreign_writes_are_seen_at_once(object_store: ObjectStore, tmp_path: Path) -> None:
    location = f"s3://{object_store.new_bucket()}/t"
    index = f"lmdb://{tmp_path}/i"
    ours = create_table(location, record_key="id", ordering="ts", index=index, storage_options=object_store.options)
    theirs = open_table(location, storage_options=object_store.options)
    for version in range(1, 4):
        ours.upsert(records(("a", "x", version, 0.1)))
        assert rows_of(theirs)[0]["ts"] == version
        theirs.upsert(records((f"b{version}", "x", version, 0.1)))
        assert len(rows_of(ours)) == version + 1
    assert ours.verify_index().agrees
    stored = b"".join(
        opened_table(theirs).definition.storage.read_bytes(file.path) or b""
        for file in opened_table(theirs).definition.storage.list_files(".hoodie")
    )
    assert b"anything" not in stored


def test_links_to_folders_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "t" / "folder").mkdir(parents=True)
    (tmp_path / "t" / "file").write_bytes(b"1")
    (tmp_path / "t" / "link").symlink_to(tmp_path / "t" / "folder")
    for location in (str(tmp_path / "t"), f"simplecache::local://{tmp_path}/t"):
        assert [(file.path, file.size) for file in Storage(location).list_files()] == [("file", 1)]


@pytest.mark.parametrize("location", ["mock:///t", "memory://t"])
def test_storage_without_conditions_is_read_only(location: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f"only reads from this storage: location={location}"):
        create_table(location, record_key="id", index="memory:refused")
    assert Storage(location).read_bytes("f") is None


def test_unwritable_table_can_be_read(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=f"lmdb://{tmp_path}/i")
    table.upsert(records(("a", "x", 1, 0.1)))
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "t"), "/copy", recursive=True)
    with open_table("memory://copy") as read_only:
        assert rows_of(read_only) == rows_of(table)
        with pytest.raises(UnsupportedTableError, match="conditional writes"):
            opened_table(read_only).definition.storage.write_bytes("f", b"")
        memory.rm("/copy", recursive=True)


@pytest.mark.parametrize(
    ("location", "options", "named"),
    [
        ("s3://b/t?region=eu", {}, "storage_options"),
        ("s3://key:secret@b/t", {}, "storage_options"),
        ("s3:///t", {}, "bucket"),
        ("s3://b/t", {"endpiont": "x"}, "endpiont"),
        ("t", {"region": "x"}, "only object stores have options"),
    ],
)
def test_wrong_location_or_option_is_named(location: str, options: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named) as raised:
        open_table(location, storage_options=options)
    assert "secret" not in str(raised.value)


class _Website(BaseHTTPRequestHandler):
    """A server that is no object store."""

    def answer(self) -> None:
        self.send_error(404)

    do_GET = do_HEAD = do_PUT = do_POST = answer  # noqa: N815  (the names that the base class asks for)


@pytest.fixture
def website() -> Iterator[str]:
    """Its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Website) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(server.serve_forever)
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("wrong", ["bucket", "address"])
def test_unusable_store_is_named(object_store: ObjectStore, website: str, wrong: str) -> None:
    options = object_store.options | ({"endpoint": website} if wrong == "address" else {})
    with pytest.raises(StoreUnavailableError, match="check the bucket's name, the address of the store"):
        create_table("s3://no-such-bucket/t", record_key="id", index="memory:refused", storage_options=options)


@pytest.mark.invariant("P22")
@pytest.mark.parametrize("remove", [settle_prepared, remove_unfinished_drafts])
def test_contents_of_a_successor_stay(object_store: ObjectStore, remove: Callable[[Fence], None]) -> None:
    """A process that has lost the lease lists drafts after their contents were written, and before their decisions were."""
    location = f"s3://{object_store.new_bucket()}/t"
    table = create_table(location, record_key="id", index="memory:successor", storage_options=object_store.options)
    storage, contents = opened_table(table).definition.storage, list[str]()

    def require_held() -> None:
        raise LeaseLostError("another process took over")

    def remove_before_decision(request: str) -> None:
        found = [file.path for file in storage.list_files(f"{paths.PREPARED}/drafts")]
        if request == "put" and found and not contents:
            contents.extend(found)
            with suppress(LeaseLostError):
                remove(Fence(opened_table(table).definition, require_held))

    with at_requests(remove_before_decision):
        draft = storage.draft(f"{paths.PREPARED}/next", b"plan")
    assert contents
    assert storage.publish(draft, "next")
    assert storage.read_bytes("next") == b"plan"
    table.drop_index()


@pytest.mark.invariant("P30")
def test_clean_removes_unannounced_dead_drafts(object_store: ObjectStore) -> None:
    location = f"s3://{object_store.new_bucket()}/t"
    table = create_table(location, record_key="id", index="memory:drafts", storage_options=object_store.options)
    table.upsert(pa.table({"id": ["a"]}))
    storage = opened_table(table).definition.storage
    # A writer died after it had written the content, another one after it had announced its plan.
    content = f".hoodie/.rli/undoing/drafts/20240531120000000.rollback.{'0a' * 16}"
    storage.write_bytes(content, b"content")
    draft = storage.draft(".hoodie/.rli/services/20240531120000000.clean", b"plan")
    remove_unfinished_drafts(Fence(opened_table(table).definition, lambda: None))
    assert not storage.exists(content)
    assert storage.publish(draft, "x")
    assert storage.read_bytes("x") == b"plan"
    storage.write_bytes(content, b"content")
    table.clean()
    assert not [file for file in storage.list_files(".hoodie/.rli", recursive=True) if "/drafts/" in file.path]
    table.drop_index()
