"""No two values have one key: values of which a key's text is ambiguous are refused."""

from __future__ import annotations

import pickle
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rli.errors import InvalidKeyError
from rli.hudi.key_generator import KeyGenerator
from rli.hudi.table_keys import TableKeys
from rli.model import Scope

FIELDS = ("a", "b", "ab")

# Short texts of what separates, and of what stands for no value.
PARTS = st.one_of(
    st.none(),
    st.lists(st.sampled_from([*"ab:,/=%x", "ab", ",b:", "/b=", "__null__", "__empty__"]), max_size=5).map("".join),
)
ROWS = st.tuples(PARTS, PARTS, PARTS)


def keys_of(*, hive_style: bool = False, url_encode: bool = False) -> TableKeys:
    return TableKeys.of(KeyGenerator(FIELDS, FIELDS, hive_style, url_encode), None)


def table_of(row: tuple[str | None, ...]) -> pa.Table:
    return pa.table({name: pa.array([value], pa.string()) for name, value in zip(FIELDS, row, strict=True)})


def key(row: tuple[str | None, ...]) -> str | None:
    try:
        return str(keys_of().record_keys(table_of(row))[0])
    except InvalidKeyError:
        return None


def path(row: tuple[str | None, ...], scope: Scope, *, hive_style: bool, url_encode: bool) -> str | None:
    try:
        return str(keys_of(hive_style=hive_style, url_encode=url_encode).partition_paths(table_of(row), scope)[0])
    except InvalidKeyError:
        return None


def parsed(text: str) -> tuple[str | None, ...]:
    """The only reading of a key: a part ends where the next column first follows."""
    values, rest = [], text.removeprefix("a:")
    for name in FIELDS[1:]:
        value, _, rest = rest.partition(f",{name}:")
        values.append(value)
    meanings = {"__null__": None, "__empty__": ""}
    return tuple(meanings.get(value, value) for value in [*values, rest])


@given(ROWS)
@example(("1,b:2", "3", "4"))
@example(("1", "2,ab:3", "4"))
@example(("x,", "b:", ",ab"))
def test_a_composite_key_has_one_reading(row: tuple[str | None, ...]) -> None:
    text = key(row)
    assert text is None or parsed(text) == row


@pytest.mark.parametrize(("hive_style", "url_encode"), [(False, False), (True, False), (False, True), (True, True)])
def test_partition_scope_has_distinct_paths(*, hive_style: bool, url_encode: bool) -> None:
    values = (None, "x", "y", "x/y", "y/x", "x/b=y", "b=x", "__HIVE_DEFAULT_PARTITION__", "%2F")
    rows: dict[str, tuple[str | None, ...]] = {}
    for row in product(values, repeat=3):
        text = path(row, Scope.PARTITION, hive_style=hive_style, url_encode=url_encode)
        if text is not None:
            assert rows.setdefault(text, row) == row
    assert len(rows) > 40


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (("1,b:2", "3", "4"), r"column=a row=0 value='1,b:2'.*begins at ',b:'"),
        (("1", "2,ab:3", "4"), r"column=b row=0 value='2,ab:3'.*begins at ',ab:'"),
        (("__null__", "2", "3"), r"column=a row=0 value='__null__'.*stands for null"),
        (("1", "2", "__empty__"), r"column=ab row=0 value='__empty__'.*stands for an empty string"),
    ],
)
def test_an_ambiguous_part_is_named(row: tuple[str, ...], named: str) -> None:
    with pytest.raises(InvalidKeyError, match=named):
        keys_of().record_keys(table_of(row))


@pytest.mark.parametrize("row", [("1,ab:2", "3", "4"), ("a:1,b", "x", ",a:,b:,ab:"), ("null", "", "__null__x")])
def test_separators_are_harmless_elsewhere(row: tuple[str, ...]) -> None:
    text = key(row)
    assert text is not None
    assert parsed(text) == row


def test_a_single_key_may_hold_anything() -> None:
    keys = TableKeys.of(KeyGenerator(("a",), (), hive_style=False, url_encode=False), None)
    texts = ["__null__", "__empty__", "1,b:2", "a:1,b:2"]
    assert keys.record_keys(pa.table({"a": texts})).to_pylist() == texts


def test_a_dictionary_is_looked_into() -> None:
    parts = pa.table({"a": pa.array(["x", "__null__"]).dictionary_encode(), "b": ["1", "2"], "ab": ["1", "2"]})
    with pytest.raises(InvalidKeyError, match="column=a row=1"):
        keys_of().record_keys(parts)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("url_encode", [False, True])
def test_null_partition_name_is_refused(scope: Scope, *, url_encode: bool) -> None:
    keys = keys_of(url_encode=url_encode)
    with pytest.raises(InvalidKeyError, match=r"column=b row=0.*the partition of null has the same path"):
        keys.partition_paths(table_of(("x", "__HIVE_DEFAULT_PARTITION__", "y")), scope)


def test_global_scope_allows_nested_folders() -> None:
    row = ("2024/01/02", "05", "x")
    assert path(row, Scope.GLOBAL, hive_style=False, url_encode=False) == "2024/01/02/05/x"
    assert path(row, Scope.PARTITION, hive_style=True, url_encode=False) == "a=2024/01/02/b=05/ab=x"
    assert path(row, Scope.PARTITION, hive_style=False, url_encode=True) == "2024%2F01%2F02/05/x"
    assert path(("x", "05", "2024/01/02"), Scope.PARTITION, hive_style=False, url_encode=False) == "x/05/2024/01/02"
    with pytest.raises(InvalidKeyError, match=r"column=a row=0 value='2024/01/02'.*url_encode_partitions=True"):
        keys_of().partition_paths(table_of(row), Scope.PARTITION)


def test_keys_travel_to_other_machines() -> None:
    keys = TableKeys.of(KeyGenerator(FIELDS, (), hive_style=False, url_encode=False), pa.schema([("b", pa.int32())]))
    assert pickle.loads(pickle.dumps(keys)) == keys  # noqa: S301  (our own bytes)
    assert keys.record_keys(pa.table({"a": ["x"], "b": [1.0], "ab": ["y"]})).to_pylist() == ["a:x,b:1,ab:y"]
