"""Record keys as bytes: lossless, short, and the same for ever."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rli.codec import entries, record_keys
from rli.codec.key_codec import KeyCodec
from rli.errors import CorruptIndexError, InvalidKeyError, SettingsError
from rli.model import KeyMode
from rli.settings import IndexSettings
from rli.testing import strategies

_GOLDEN = Path(__file__).parents[2] / "data" / "golden"
GOLDEN = json.loads((_GOLDEN / "codec-1.json").read_text())
GOLDEN_KEYED = json.loads((_GOLDEN / "codec-1-keyed.json").read_text())
UUID_STRING = "123e4567-e89b-12d3-a456-426614174000"


def encoded(keys: list[str], codec: KeyCodec | None = None) -> list[tuple[str, int]]:
    """Encoded bytes in hexadecimal and shard of each key, in input order."""
    codec = codec or KeyCodec(IndexSettings(hash_seed=GOLDEN["hash_seed"], shard_count=64))
    found: list[tuple[str, int] | None] = [None] * len(keys)
    for positions, batch in codec.encode(pa.array(keys, pa.string())):
        for position, key, shard in zip(positions.tolist(), batch.to_bytes(), batch.shards.tolist(), strict=True):
            assert found[position] is None
            found[position] = key.hex(), shard
    assert None not in found
    return [item for item in found if item is not None]


def decoded(keys: pa.Array) -> list[str]:
    """The keys after a way through the encoding."""
    found: list[str] = [""] * len(keys)
    for positions, batch in record_keys.encode(keys):
        for position, key in zip(positions.tolist(), record_keys.decode(batch).to_pylist(), strict=True):
            found[position] = key
    return found


def test_golden_keys_keep_bytes_and_shards() -> None:
    keys = [row["record_key"] for row in GOLDEN["keys"]]
    assert encoded(keys) == [(row["encoded"], row["shard_of_64"]) for row in GOLDEN["keys"]]


def test_golden_keys_keep_their_digests() -> None:
    codec = KeyCodec(IndexSettings(hash_seed=GOLDEN["hash_seed"], shard_count=64, key_mode=KeyMode.DIGEST))
    keys = [row["record_key"] for row in GOLDEN["keys"]]
    assert encoded(keys, codec) == [(row["digest"], row["digest_shard_of_64"]) for row in GOLDEN["keys"]]


def test_golden_keys_keep_their_keyed_digests() -> None:
    settings = IndexSettings(
        hash_seed=GOLDEN_KEYED["hash_seed"],
        shard_count=64,
        key_mode=KeyMode.DIGEST,
        digest="blake2b_128",
        digest_key=GOLDEN_KEYED["digest_key"],
    )
    keys = [row["record_key"] for row in GOLDEN_KEYED["keys"]]
    assert encoded(keys, KeyCodec(settings)) == [(row["digest"], row["shard_of_64"]) for row in GOLDEN_KEYED["keys"]]


def test_golden_bytes_are_read() -> None:
    for row in GOLDEN["keys"]:
        key = bytes.fromhex(row["encoded"])
        items = np.frombuffer(key, dtype=f"V{len(key)}")
        assert record_keys.decode(items).to_pylist() == [row["record_key"]]


def test_golden_entries() -> None:
    for row in GOLDEN["entries"]:
        packed = entries.pack(row["sequence"], np.array([row["file_group"]]))
        assert packed.tolist() == [row["entry"]]
        assert entries.sequences(packed).tolist() == [row["sequence"]]
        assert entries.file_groups(packed).tolist() == [row["file_group"]]


@given(st.lists(strategies.record_keys(), max_size=20))
@example(["", "\0", "a\0", "\U0001f600" * 16_384])
def test_decoding_gives_the_same_string(keys: list[str]) -> None:
    assert decoded(pa.array(keys, pa.string())) == keys


@given(st.lists(strategies.record_keys(), max_size=20, unique=True))
def test_different_strings_have_different_bytes(keys: list[str]) -> None:
    assert len(set(encoded(keys))) == len(keys)


@given(st.text("0123456789abcdefABCDEF-", min_size=1, max_size=36))
@example("-0")
@example("0" * 18)
@example("-" + "9" * 18)
def test_look_alikes_of_numbers_and_uuids(key: str) -> None:
    assert decoded(pa.array([key])) == [key]


@given(st.lists(strategies.record_keys(), min_size=1, max_size=10), st.data())
def test_batch_does_not_affect_key_encoding(keys: list[str], data: st.DataObject) -> None:
    alone = [encoded([key])[0] for key in keys]
    assert encoded(keys) == alone
    sliced = pa.array(["x", *keys], pa.string()).slice(1)
    assert decoded(sliced) == keys
    order = data.draw(st.permutations(range(len(keys))))
    assert encoded([keys[position] for position in order]) == [alone[position] for position in order]


@given(st.integers(-(1 << 80), 1 << 80))
def test_integer_encoding_never_exceeds_string(number: int) -> None:
    ((hexadecimal, _),) = encoded([str(number)])
    size = len(hexadecimal) // 2
    if len(str(abs(number))) <= 18:
        assert size == 1 + (number.bit_length() + 7) // 8
    else:
        assert size <= len(str(number)) + 2


@given(st.uuids(version=None))
def test_a_uuid_takes_sixteen_bytes(uuid: UUID) -> None:
    assert encoded([str(uuid)])[0][0] == uuid.hex


@given(strategies.record_keys())
def test_encoding_adds_at_most_two_bytes(key: str) -> None:
    assert len(encoded([key])[0][0]) // 2 <= len(key.encode()) + 2


def test_only_canonical_uuids_take_sixteen_bytes() -> None:
    spellings = [
        UUID_STRING.upper(),
        UUID_STRING.title(),
        UUID_STRING.replace("-", ""),
        f"{{{UUID_STRING}}}",
        f"urn:uuid:{UUID_STRING}",
        UUID_STRING.replace("-", "_"),
        UUID_STRING.replace("a", "g"),
        UUID_STRING[:-1],
        "a" * 14,
        "a" * 15,
        "a" * 16,
        "123e4567-e89b-12d3-a456-4266-4174000",
    ]
    sizes = {len(key) // 2 for key, _ in encoded(spellings)}
    assert 16 not in sizes
    assert decoded(pa.array(spellings)) == spellings


@pytest.mark.parametrize("key", ["", "\0" * 70_000, "k" * 65_536, "\U0010ffff" * 20_000, "é\0\U0001f600"])
def test_awkward_keys(key: str) -> None:
    assert decoded(pa.array([key, "x"])) == [key, "x"]


def test_an_empty_batch_has_no_groups() -> None:
    assert record_keys.encode(pa.array([], pa.string())) == []


@pytest.mark.parametrize("mode", list(KeyMode))
def test_null_key_is_refused_with_row(mode: KeyMode) -> None:
    with pytest.raises(InvalidKeyError, match="row=1"):
        list(KeyCodec(IndexSettings(key_mode=mode)).encode(pa.array(["a", None, "b"], pa.string())))


@pytest.mark.parametrize("content", ["00", "03", "1801", "0f00", "20", "30aa"])
def test_unknown_bytes_are_refused(content: str) -> None:
    key = bytes.fromhex(content)
    with pytest.raises(CorruptIndexError, match="kind="):
        record_keys.decode(np.frombuffer(key, dtype=f"V{len(key)}"))


def test_undecodable_bytes_are_refused() -> None:
    with pytest.raises(CorruptIndexError, match="no string"):
        record_keys.decode(np.frombuffer(b"\x01\xff", dtype="V2"))


def test_digests_are_fixed_width_and_undecodable() -> None:
    codec = KeyCodec(IndexSettings(key_mode=KeyMode.DIGEST))
    ((positions, keys),) = codec.encode(pa.array(["a", UUID_STRING, "", "x" * 70_000, "7"]))
    assert positions.tolist() == [0, 1, 2, 3, 4]
    assert keys.width == 16
    assert len(set(keys.to_bytes())) == 5
    with pytest.raises(SettingsError, match="key_mode=digest"):
        codec.decode(keys)


@given(st.lists(strategies.record_keys(), min_size=1, max_size=20), st.sampled_from([1, 2, 64, 65_536]))
def test_shards_are_below_the_shard_count(keys: list[str], count: int) -> None:
    shards = {shard for _, shard in encoded(keys, KeyCodec(IndexSettings(shard_count=count)))}
    assert shards <= set(range(count))


def test_keys_spread_over_the_shards() -> None:
    shards = [shard for _, shard in encoded([str(number) for number in range(64_000)])]
    counts = np.bincount(shards, minlength=64)
    # 1000 to a shard, with a standard deviation of about 31.
    assert counts.min() > 800
    assert counts.max() < 1200
