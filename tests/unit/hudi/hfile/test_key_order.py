"""The order in which an HFile holds keys."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from rli.hudi.hfile.key_order import order_of

_MANY = 2_100


def _sorted_rows(keys: list[bytes]) -> list[int]:
    return sorted(range(len(keys)), key=keys.__getitem__)


@given(
    st.lists(st.binary(max_size=3), min_size=1, max_size=40),
    st.sampled_from((b"", b"a-common-beginning-of-keys")),
    st.integers(0, 7),
)
def test_many_keys_as_bytes_compare(parts: list[bytes], beginning: bytes, first: int) -> None:
    keys = [beginning + parts[number % len(parts)] + parts[number % 7 % len(parts)] for number in range(_MANY)]
    ordered = order_of(pa.array(keys, pa.binary()).slice(first))
    assert ordered.tolist() == _sorted_rows(keys[first:])


@pytest.mark.parametrize("count", [1, 10, _MANY])
def test_strings_by_utf8(count: int) -> None:
    keys = [chr(0x10FFFF - 977 * number % 0x1000) * (number % 4) for number in range(count)]
    assert order_of(pa.array(keys)).tolist() == _sorted_rows([key.encode() for key in keys])
