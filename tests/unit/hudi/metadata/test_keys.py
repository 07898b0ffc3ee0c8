from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.hudi.metadata.groups import groups_of
from rli.hudi.metadata.keys import secondary_key, split_secondary_key
from rli.hudi.metadata.partitions import data_partition_of, file_id, kind_of
from rli.hudi.xx_hash import long_xx_hash

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_published_long_hashes(data: bytes, expected: int) -> None:
    assert long_xx_hash(data, 0) == expected


@given(st.lists(TEXT, min_size=1, max_size=20), st.integers(1, 1000))
def test_groups_follow_javas_hash(keys: list[str], count: int) -> None:
    assert groups_of(pa.array(keys), count).tolist() == [_group(key, count) for key in keys]


@given(st.none() | TEXT, TEXT)
def test_secondary_keys_come_apart(secondary: str | None, record_key: str) -> None:
    assert split_secondary_key(secondary_key(secondary, record_key)) == (
        None if secondary is None else secondary,
        record_key,
    )


@pytest.mark.parametrize(
    ("secondary", "record_key", "key"),
    [
        ("a$b", "k2", r"a\$b$k2"),
        ("back\\slash", "k$3", r"back\\slash$k\$3"),
        (None, "k4", "\0$k4"),
        ("", "e1", "$e1"),
    ],
)
def test_hudis_own_secondary_keys(secondary: str | None, record_key: str, key: str) -> None:
    assert secondary_key(secondary, record_key) == key


def test_file_ids_name_their_partition() -> None:
    assert file_id("column_stats", 1) == "col-stats-0001-0"
    assert file_id("secondary_index_my_city", 12) == "secondary-index-my-city-0012-0"
    assert file_id("record_index", 1, "region=a%2Fb_c%3Dd") == "record-index-region%3Da%252Fb%5Fc%253Dd-0001-0"
    assert data_partition_of("record-index-e%2Df-0001-0", "record_index") == "e%2Df"
    assert data_partition_of("record-index-0003-0", "record_index") == ""
    assert data_partition_of("files-0000-0", "record_index") is None


def test_an_unknown_partition_has_no_kind() -> None:
    assert kind_of("vector_index") is None
    assert kind_of("secondary_index_") is None


def _group(key: str, count: int) -> int:
    """As Java computes it, digit by digit."""
    units = key.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    amount = abs(code - (1 << 32) if code >> 31 else code)
    return amount % count
