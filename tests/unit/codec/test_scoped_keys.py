"""Record keys of a partition as bytes: lossless, and the same for ever."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rli.codec import scoped_keys
from rli.codec.key_codec import KeyCodec
from rli.errors import CorruptIndexError, InvalidKeyError
from rli.model import KeyMode, Scope
from rli.settings import IndexSettings
from rli.testing import strategies

UUID_STRING = "123e4567-e89b-12d3-a456-426614174000"
PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
KEYS = st.one_of(strategies.record_keys(), st.sampled_from(["", "\0", "a\0b", "7", "-7", UUID_STRING, "x" * 15, "é"]))


def encoded(pairs: list[tuple[str, str]], settings: IndexSettings | None = None) -> list[bytes]:
    """The bytes of each partition path and record key, in input order."""
    found: list[bytes] = [b""] * len(pairs)
    codec = KeyCodec(settings or IndexSettings(scope=Scope.PARTITION))
    for positions, keys in codec.encode(texts(pairs)):
        for position, key in zip(positions.tolist(), keys.to_bytes(), strict=True):
            found[position] = key
    return found


def texts(pairs: list[tuple[str, str]]) -> pa.Array:
    paths, keys = (pa.array(column, pa.string()) for column in zip(*pairs, strict=True))
    return scoped_keys.joined(paths, keys)


@given(st.lists(st.tuples(PATHS, KEYS), min_size=1, max_size=30))
@example([("", ""), ("", "a"), ("a", "")])
@example([("p" * 256, "1"), ("p" * 65_535, "1"), ("p", "1")])
def test_scoped_keys_round_trip_distinctly(pairs: list[tuple[str, str]]) -> None:
    keys = texts(pairs)
    paths, record_keys = scoped_keys.split(keys)
    assert list(zip(paths.to_pylist(), record_keys.to_pylist(), strict=True)) == pairs
    back: list[str] = [""] * len(pairs)
    for positions, items in scoped_keys.encode(keys):
        for position, key in zip(positions.tolist(), scoped_keys.decode(items).to_pylist(), strict=True):
            back[position] = key
    assert back == keys.to_pylist()
    assert len(set(encoded(pairs))) == len(set(pairs))


def test_golden_keys_keep_their_bytes() -> None:
    pairs = [("", "k"), ("Oslo", "k"), ("city=Oslo", "258"), ("é", UUID_STRING)]
    assert [key.hex() for key in encoded(pairs)] == [
        "00000000016b",
        "00044f736c6f0000016b",
        "0009636974793d4f736c6f00120102",
        "0002c3a9123e4567e89b12d3a456426614174000",
    ]


def test_digests_tell_partitions_apart() -> None:
    settings = IndexSettings.new(key_mode=KeyMode.DIGEST, scope=Scope.PARTITION)
    found = encoded([("x", "k"), ("y", "k"), ("x", "l"), ("x", "k")], settings)
    assert {len(key) for key in found} == {16}
    assert len(set(found)) == 3
    assert found[0] == found[3]


def test_a_null_key_is_refused() -> None:
    keys = scoped_keys.joined(pa.array(["x", "x"]), pa.array(["k", None], pa.string()))
    with pytest.raises(InvalidKeyError, match="null: row=1"):
        scoped_keys.encode(keys)


def test_key_without_partition_is_refused() -> None:
    with pytest.raises(InvalidKeyError, match=r"no partition: keys=\['k'\]"):
        scoped_keys.encode(pa.array(["k"]))


def test_overlong_partition_path_is_refused() -> None:
    with pytest.raises(InvalidKeyError, match="too long: bytes=65536"):
        encoded([("p" * 65_536, "k")])


@pytest.mark.parametrize("content", ["ffff6b6b", "00000000", "0002c3"])
def test_malformed_key_bytes_are_refused(content: str) -> None:
    raw = bytes.fromhex(content)
    with pytest.raises(CorruptIndexError, match="unknown key encoding"):
        scoped_keys.decode(np.frombuffer(raw, f"V{len(raw)}"))


@pytest.mark.parametrize("content", ["0002fffe0161", "0001610001ff"])
def test_strings_that_are_none_are_refused(content: str) -> None:
    raw = bytes.fromhex(content)
    with pytest.raises(CorruptIndexError, match="no string"):
        scoped_keys.decode(np.frombuffer(raw, f"V{len(raw)}"))
