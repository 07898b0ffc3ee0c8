"""The index on its own: creating, opening, looking up."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rli import KeyMode
from rli.errors import (
    CorruptIndexError,
    IndexExistsError,
    IndexMismatchError,
    IndexNotFoundError,
    InvalidInputError,
    InvalidKeyError,
    SettingsError,
)
from rli.index.record.opening import require_settings
from rli.locations import LOCATION_SCHEMA
from rli.model import FileGroupId
from rli.testing import strategies
from tests.support.locations import commit_places, places_in, places_of
from tests.support.soak import cases
from tests.support.stored_indexes import create_index, open_index

A = FileGroupId("x=1", "a-0")
B = FileGroupId("", "b-0")


def test_a_lookup_keeps_order_and_repetitions(index_url: str) -> None:
    with create_index(index_url) as index:
        first = commit_places(index, {"k1": A, "k2": B})
        second = commit_places(index, {"k3": B})
        found = index.lookup(["k3", "nope", "k1", "k1", "k3", "", "k2"])
        assert found.schema == LOCATION_SCHEMA
        assert found.to_pydict() == {
            "record_key": ["k3", "nope", "k1", "k1", "k3", "", "k2"],
            "partition_path": ["", None, "x=1", "x=1", "", None, ""],
            "file_id": ["b-0", None, "a-0", "a-0", "b-0", None, "b-0"],
            "instant_time": [second, None, first, first, second, None, first],
        }


def test_empty_lookup_has_all_columns(index_url: str) -> None:
    with create_index(index_url) as index:
        assert index.lookup([]).schema == LOCATION_SCHEMA
        assert index.lookup(["a"]).num_rows == 1


@pytest.mark.parametrize(
    "keys",
    [
        ["b", "a"],
        ("b", "a"),
        pa.array(["b", "a"]),
        pa.array(["b", "a"], pa.large_string()),
        pa.array(["b", "a"], pa.string_view()),
        pa.array(["b", "a"]).dictionary_encode(),
        pa.chunked_array([["b"], [], ["a"]], pa.string()),
        pa.chunked_array([["b", "a"]]),
        pa.array(["x", "b", "a", "y"]).slice(1, 2),
    ],
    ids=["list", "tuple", "array", "large", "view", "dictionary", "chunks", "chunk", "slice"],
)
def test_keys_in_any_form(index_url: str, keys: object) -> None:
    with create_index(index_url) as index:
        commit_places(index, {"a": A, "b": B})
        found = index.lookup(keys)
        assert found.column("record_key").to_pylist() == ["b", "a"]
        assert places_in(found) == [B, A]


def test_no_keys_in_no_chunks(index_url: str) -> None:
    with create_index(index_url) as index:
        assert index.lookup(pa.chunked_array([], pa.string())).num_rows == 0


@pytest.mark.parametrize(
    "keys",
    [["a", None], [1, 2], pa.array([1]), pa.array([None], pa.string()), pa.array([1]).dictionary_encode(), ["\ud800"]],
    ids=["none", "integers", "integer array", "null", "dictionary", "lone surrogate"],
)
def test_what_is_no_key_is_refused(index_url: str, keys: object) -> None:
    with create_index(index_url) as index, pytest.raises(InvalidKeyError):
        index.lookup(keys)


def test_single_string_is_no_key_list(index_url: str) -> None:
    with create_index(index_url) as index, pytest.raises(InvalidInputError, match="a single string"):
        index.lookup("k1")


def test_index_opens_with_creation_settings(index_url: str) -> None:
    with create_index(index_url, shards=7, key_mode="digest", key_fields=["a", "b"], table_id="t") as created:
        with open_index(index_url) as opened:
            assert opened.settings == created.settings
            assert opened.settings.shard_count == 7
            assert opened.settings.key_mode is KeyMode.DIGEST
            assert opened.settings.key_fields == ("a", "b")
        created.drop()


def test_reopened_index_has_its_content(index_url: str) -> None:
    index = create_index(index_url)
    commit_places(index, {"k1": A})
    copy = pickle.loads(pickle.dumps(index))  # noqa: S301  (made here)
    again = open_index(index_url)
    for other in (copy, again):
        assert places_of(other, ["k1", "k2"]) == {"k1": A}
        other.close()
    index.close()


TWINS = ["customer-0000000000000000-000001", 'attacker63043824C\x03?\\"\x00\x15kH-\x10ac)\x17+']
"""Two texts with one 128-bit MurmurHash3: the second was computed for the first, in seconds."""


@pytest.mark.invariant("P34")
def test_crafted_key_shares_no_digest(index_url: str) -> None:
    with create_index(index_url, key_mode="digest") as index:
        commit_places(index, {TWINS[0]: A})
        assert places_of(index, TWINS) == {TWINS[0]: A}
        # Executors have the key of the digests with the index, others read it there.
        for other in (pickle.loads(pickle.dumps(index)), open_index(index_url)):  # noqa: S301  (made here)
            assert places_of(other, TWINS) == {TWINS[0]: A}
            other.close()


@pytest.mark.invariant("P34")
def test_each_index_has_hidden_hash_key(index_url: str, tmp_path: Path) -> None:
    other_url = f"lmdb://{tmp_path}/other"
    with create_index(index_url, key_mode="digest") as index, create_index(other_url, key_mode="digest") as other:
        keys = [index.settings.digest_key, other.settings.digest_key]
        assert keys[0] is not None
        assert keys[0] != keys[1]
        shown = f"{index.settings!r} {index.settings} {index.settings.model_dump(mode='json')} {index.stats()}"
        assert keys[0].get_secret_value() not in shown
        with pytest.raises(IndexMismatchError, match="digest_key") as refused:
            require_settings(index, other.settings)
        assert keys[0].get_secret_value() not in str(refused.value)


def test_index_of_earlier_version_keeps_digests(index_url: str) -> None:
    with create_index(index_url, key_mode="digest") as index:
        stored = index.store.read_control("settings")
        earlier = index.settings.model_copy(update={"digest": "mmh3_128", "digest_key": None}).to_json()
        assert b"digest_key" not in earlier
        assert index.store.compare_and_set("settings", stored, earlier)
        with open_index(index_url) as opened:
            commit_places(opened, {TWINS[0]: A})
            assert places_of(opened, TWINS) == dict.fromkeys(TWINS, A)


@pytest.mark.parametrize(
    "damage",
    [
        {"digest_key": None},
        {"digest_key": "0" * 63},
        {"digest_key": "G" * 64},
        {"digest": "mmh3_128"},
        {"digest": "sha1"},
        {"key_mode": "exact"},
    ],
)
def test_settings_without_hash_key_are_refused(index_url: str, damage: dict[str, object]) -> None:
    with create_index(index_url, key_mode="digest") as index:
        stored = index.store.read_control("settings")
        assert stored is not None
        damaged = json.dumps({**json.loads(stored), **damage}).encode()
        assert index.store.compare_and_set("settings", stored, damaged)
        with pytest.raises(SettingsError, match="settings are not valid"):
            open_index(index_url)


def test_creating_where_one_is_changes_nothing(index_url: str) -> None:
    with create_index(index_url, shards=3) as index:
        commit_places(index, {"k1": A})
        with pytest.raises(IndexExistsError, match=index_url):
            create_index(index_url, shards=5)
        assert open_index(index_url).settings.shard_count == 3
        assert places_of(index, ["k1"]) == {"k1": A}


def test_opening_what_is_not_there(index_url: str) -> None:
    for _ in range(2):
        with pytest.raises(IndexNotFoundError, match=index_url.partition("://")[2] or index_url):
            open_index(index_url)


@pytest.mark.parametrize("arguments", [{"shards": 0}, {"shards": 65_537}, {"key_mode": "fuzzy"}])
def test_wrong_arguments_leave_no_trace(index_url: str, tmp_path: Path, arguments: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"shard_count|key_mode"):
        create_index(index_url, **arguments)
    with pytest.raises(IndexNotFoundError):
        open_index(index_url)
    assert list(tmp_path.iterdir()) == []


def test_unknown_scheme_lists_known_schemes() -> None:
    with pytest.raises(SettingsError, match="lmdb, memory"):
        create_index("cassandra://x")


def test_other_settings_are_refused_by_name(index_url: str) -> None:
    with create_index(index_url, shards=3, table_id="t1") as index:
        require_settings(index, index.settings)
        expected = index.settings.model_copy(update={"table_id": "t2", "shard_count": 4})
        with pytest.raises(IndexMismatchError, match=r"shard_count=3 \(expected 4\) table_id='t1' \(expected 't2'\)"):
            require_settings(index, expected)


def test_settings_of_newer_version_are_refused(index_url: str) -> None:
    with create_index(index_url) as index:
        stored = index.store.read_control("settings")
        assert stored is not None
        newer = stored.replace(b'"codec_version": 1', b'"codec_version": 2')
        assert index.store.compare_and_set("settings", stored, newer)
        with pytest.raises(SettingsError, match="codec_version"):
            open_index(index_url)


def test_statistics(index_url: str) -> None:
    with create_index(index_url, shards=4) as index:
        empty = index.stats()
        assert (empty.entries, empty.tombstones, empty.file_groups, empty.last_instant) == (0, 0, 0, None)
        assert (empty.shards, empty.last_sequence, empty.applied_sequence) == (4, 0, 0)
        assert empty.bytes_per_entry is None
        commit_places(index, {"k1": A, "k2": B, "k3": B})
        with index.begin() as transaction:
            transaction.stage_deletes(["k2"])
            transaction.commit()
        stats = index.stats()
        assert (stats.entries, stats.tombstones, stats.file_groups) == (2, 1, 2)
        assert (stats.last_sequence, stats.applied_sequence, stats.last_instant) == (2, 2, transaction.instant)
        assert stats.url == index_url
        if stats.bytes is not None:
            assert stats.bytes_per_entry == stats.bytes / 3


def test_a_dropped_index_is_gone(index_url: str) -> None:
    with create_index(index_url) as index:
        commit_places(index, {"k1": A})
        other = open_index(index_url)
        index.drop()
        with pytest.raises(IndexNotFoundError):
            other.lookup(["k1"])
        with pytest.raises(IndexNotFoundError):
            open_index(index_url)
        with create_index(index_url) as again:
            assert places_of(again, ["k1"]) == {}


def test_dropped_index_can_be_recreated(index_url: str) -> None:
    with create_index(index_url, shards=2) as index:
        index.drop()
    with create_index(index_url, shards=3) as index:
        assert open_index(index_url).settings.shard_count == 3


def test_table_index_takes_no_transactions(index_url: str) -> None:
    with create_index(index_url, table_id="t") as index, pytest.raises(IndexMismatchError, match="open_table"):
        index.begin()


def test_gap_in_commit_log_is_noticed(index_url: str) -> None:
    with create_index(index_url) as index:
        commit_places(index, {"k1": A})
        commit_places(index, {"k2": B})
        first = index.store.read_control("commit/0000000001")
        assert index.store.compare_and_set("commit/0000000001", first, None)
        with open_index(index_url) as other, pytest.raises(CorruptIndexError, match="gap"):
            other.lookup(["k2"])


@pytest.mark.parametrize("mode", list(KeyMode))
@given(keys=st.lists(strategies.record_keys(), min_size=1, max_size=30), data=st.data())
@settings(max_examples=cases(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_kind_of_key_is_found(index_url: str, mode: KeyMode, keys: list[str], data: st.DataObject) -> None:
    known = {key: A if position % 2 else B for position, key in enumerate(keys)}
    absent = {key: B for key in data.draw(st.lists(strategies.record_keys(), max_size=5)) if key not in known}
    with create_index(index_url, key_mode=mode) as index:
        try:
            commit_places(index, known)
            asked = data.draw(st.permutations([*keys, *absent]))
            assert places_in(index.lookup(asked)) == [known.get(key) for key in asked]
            if mode is KeyMode.EXACT:
                shards = [index.scan(shard) for shard in range(index.settings.shard_count)]
                listed = [key for shard in shards for batch, _ in shard for key in batch.to_pylist()]
                assert sorted(listed) == sorted(known)
        finally:
            index.drop()
