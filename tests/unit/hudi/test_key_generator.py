from __future__ import annotations

import pyarrow as pa
import pytest

from rli.errors import InvalidKeyError
from rli.hudi.key_generator import KeyGenerator


def _path(value: str | None, *, hive_style: bool = False, url_encode: bool = False) -> str:
    rows = pa.table({"city": pa.array([value], pa.string())})
    (path,) = KeyGenerator(("id",), ("city",), hive_style, url_encode).partition_paths(rows).to_pylist()
    assert isinstance(path, str)
    return path


@pytest.mark.parametrize(
    "value", ["a:b", "a%20b", "a\tb", "a\x7f", "a=b", "/a", "a/", "a//b", ".", "a/../b", ".hoodie", "\0"]
)
def test_ambiguous_partition_values_are_refused(value: str) -> None:
    with pytest.raises(InvalidKeyError, match=r"column=city.*url_encode_partitions=True"):
        _path(value)


@pytest.mark.parametrize(
    "value", ["a b", "a%b", "a#b?c*[d]{e}", "a\\\"'", "a+b&c,d;e", "a|b<c>^~`", " a ", ".a", "_a", "日本", "a/b"]
)
def test_other_values_are_used_as_folders(value: str) -> None:
    assert _path(value) == value
    assert _path(value, hive_style=True) == f"city={value}"


def test_hive_style_distinguishes_equals_signs() -> None:
    assert _path("a=b", hive_style=True) == "city=a=b"


@pytest.mark.parametrize(
    ("value", "escaped"),
    [("a:b", "a%3Ab"), ("a=b", "a%3Db"), ("a%20b", "a%2520b"), ("a/b", "a%2Fb"), ("a\tb", "a%09b"), ("é &+", "é &+")],
)
def test_encoded_values(value: str, escaped: str) -> None:
    assert _path(value, url_encode=True) == escaped


@pytest.mark.parametrize("value", [None, ""])
def test_missing_value_uses_default_partition(value: str | None) -> None:
    assert _path(value, hive_style=True, url_encode=True) == "city=__HIVE_DEFAULT_PARTITION__"
