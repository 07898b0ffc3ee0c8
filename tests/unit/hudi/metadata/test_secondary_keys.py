"""Keys of secondary indexes: many at a time as one at a time."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rli.hudi.metadata.keys import secondary_key, secondary_prefix
from rli.hudi.metadata.secondary_keys import (
    entry_keys,
    entry_prefixes,
    has_index_form,
    index_form,
    prefixes_of,
    range_of,
    record_keys_of,
)

_STRINGS = st.text(st.sampled_from("a$\\\0%#ä😀\n"), max_size=6)


@given(st.lists(st.tuples(st.none() | _STRINGS, _STRINGS), min_size=1, max_size=20))
def test_keys_keep_value_and_record(pairs: list[tuple[str | None, str]]) -> None:
    values, keys = (pa.array(column, pa.string()) for column in zip(*pairs, strict=True))
    found = entry_keys(values, keys)
    assert found.to_pylist() == [secondary_key(*pair) for pair in pairs]
    assert record_keys_of(found.cast(pa.binary())).to_pylist() == keys.to_pylist()
    prefixes = [secondary_prefix(value) for value, _ in pairs]
    assert prefixes_of(found).to_pylist() == entry_prefixes(values).to_pylist() == prefixes
    for key, prefix in zip(found.to_pylist(), prefixes, strict=True):
        for other in prefixes:
            least, behind = range_of(other.encode())
            assert (least <= key.encode() < behind) == (other == prefix)


def test_values_print_as_in_hudi() -> None:
    """As found in indexes of Hudi 1.2.0."""
    assert index_form(pa.array([-364], pa.date32())).to_pylist() == ["-364"]
    moments = pa.array([1_717_156_800_123_456], pa.timestamp("us", "UTC"))
    assert index_form(moments).to_pylist() == ["1717156800123456"]
    assert index_form(pa.array([1 << 40, -5, None])).to_pylist() == ["1099511627776", "-5", None]
    assert not any(
        map(has_index_form, (pa.float64(), pa.bool_(), pa.binary(), pa.decimal128(9, 2), pa.timestamp("ms")))
    )
