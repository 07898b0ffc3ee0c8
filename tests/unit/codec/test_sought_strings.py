"""Strings that are sought among others: the same are found as by a hash table of Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rli.codec.fingerprints import mixed
from rli.codec.sought_strings import SoughtStrings
from rli.codec.string_fingerprints import string_fingerprints

SHAPES = {
    "of one length": lambda number: f"key-{number:09}",
    "of some lengths": lambda number: "ä" * (number % 4) + str(number),
    "of many lengths": lambda number: "ä" * (number % 40) + str(number),
}


@pytest.mark.parametrize("few", [0, 1_000])
@pytest.mark.parametrize("sought", [0, 1, 100, 1_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_finds_what_arrow_finds(shape: str, sought: int, few: int) -> None:
    every = pa.array(map(SHAPES[shape], range(2_000)), pa.string())
    random = np.random.default_rng(0)
    some = every.take(pa.array(random.choice(len(every), sought, replace=False)))
    # Strings come twice, and with a null and the empty string behind them.
    searched = pa.concat_arrays([every.take(pa.array(random.choice(len(every), 3_000))), pa.array([None, "", "a"])])
    assert_found_as_by_arrow(some, searched, few)


def test_finds_the_empty_string() -> None:
    assert_found_as_by_arrow(pa.array(["", "a"]), pa.array(["b", "", None, "a", ""]), few=0)


def test_equal_hashes_are_told_apart() -> None:
    one, other = with_one_hash()
    for sought in ([one], [one, "a"], [one, other], [other, "a", one]):
        assert_found_as_by_arrow(pa.array(sought), pa.array([other, one, "b", "a", other]), few=0)


def with_one_hash() -> tuple[str, str]:
    """Two strings of 16 characters: of the second, the last eight undo how the first eight change the hash."""
    begins = [f"{number:08}".encode() for number in range(4_096)]
    hashes = mixed(np.full(len(begins), 16, np.uint64), np.frombuffer(b"".join(begins), "<u8"))
    differing = hashes ^ hashes[0]
    # These bits would leave ASCII.
    fitting = np.flatnonzero(differing & np.uint64(0x8080808080808080) == 0)[1]
    ends = np.frombuffer(b"ends-abc", "<u8") ^ np.array([0, differing[fitting]], np.uint64)
    one, other = (
        (begin + end.tobytes()).decode("ascii") for begin, end in zip((begins[0], begins[fitting]), ends, strict=True)
    )
    assert one != other
    assert len(np.unique(string_fingerprints(pa.array([one, other])))) == 1
    return one, other


def assert_found_as_by_arrow(sought: pa.Array, searched: pa.Array, few: int) -> None:
    """Search at once, and in a part that does not begin with its buffers."""
    expected = pc.index_in(searched, value_set=sought)
    strings = SoughtStrings(sought, few)
    for start in (0, len(searched) // 2):
        rows, numbers = strings.found_in(searched[start:])
        assert rows.tolist() == np.flatnonzero(expected[start:].is_valid()).tolist()
        assert numbers.tolist() == expected[start:].drop_null().to_pylist()
