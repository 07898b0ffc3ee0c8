"""A text computes the same value for a record wherever it stands, and fails rather than change one."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rli.errors import InvalidInputError
from rli.filters.filter import Filter
from rli.filters.value_expression import ValueExpression

DAY = dt.date(2024, 5, 17)
MOMENT = dt.datetime(2024, 5, 17, 13, 45, 12, tzinfo=dt.UTC)

ROWS = pa.table(
    {
        "n": [1, 2, None],
        "i": pa.array([1, 127, -128], pa.int8()),
        "f": [1.5, -2.5, 0.0],
        "g": pa.array([1.5, -2.5, 0.0], pa.float32()),
        "p": pa.array([Decimal("1.50"), Decimal("2.25"), None], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal(1)] * 3, pa.decimal128(38, 10)),
        "s": ["x", "Yé", None],
        "v": ["1", "z", "3"],
        "b": [True, False, None],
        "d": pa.array([DAY] * 3),
        "t": pa.array([MOMENT] * 3, pa.timestamp("us", "UTC")),
        "st": [{"a": 1}, {"a": 2}, None],
        "source.n": [5, 6, 7],
        "end": [1, 2, 3],
        "case": [1, 0, 2],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n + 1", [2, 3, None]),
        ("-n", [-1, -2, None]),
        ("n * 2.5", [2.5, 5.0, None]),
        ("n / 2", [0.5, 1.0, None]),
        ("n / 0", [None] * 3),
        ("f / f", [1.0, 1.0, None]),
        ("-7 % end", [0, -1, -1]),
        ("7 % case", [0, None, 1]),
        ("i + 200", [201, 327, 72]),
        ("g * 2", [3.0, -5.0, 0.0]),
        ("p * 1.1", [Decimal("1.650"), Decimal("2.475"), None]),
        ("round(p / 3, 2)", [Decimal("0.5"), Decimal("0.75"), None]),
        ("wide * 2 + n", [Decimal(3), Decimal(4), None]),
        ("1 + 2 * 3", [7] * 3),
        ("s || '-' || v", ["x-1", "Yé-z", None]),
        ("concat(lower(s), upper(v))", ["x1", "yéZ", None]),
        ("length(s)", [1, 2, None]),
        ("substring(s, 2)", ["", "é", None]),
        ("substring('apple', 2, 3)", ["ppl"] * 3),
        ("substring('apple', -3, 2)", ["pl"] * 3),
        ("trim('  a ')", ["a"] * 3),
        ("abs(f)", [1.5, 2.5, 0.0]),
        ("round(f)", [2.0, -3.0, 0.0]),
        ("floor(f)", [1.0, -3.0, 0.0]),
        ("ceil(f)", [2.0, -2.0, 0.0]),
        ("coalesce(n, end)", [1, 2, 3]),
        ("coalesce(null, s, 'none')", ["x", "Yé", "none"]),
        ("nullif(n, 1)", [None, 2, None]),
        ("case when n = 1 then 'one' when n is null then 'no' else s end", ["one", "Yé", "no"]),
        ("case n when 1 then 0.5 else 2 end", [0.5, 2.0, 2.0]),
        ("case when n > 1 then n end", [None, 2, None]),
        ("case when n = 1 then i when n = 2 then n else f end", [1.0, 2.0, 0.0]),
        ("coalesce(n, i, f)", [1.0, 2.0, -128.0]),
        ("case when n = 1 then 9007199254740993 * 0 + 1 else f end", [1.0, -2.5, 0.0]),
        ("case (n) when 1 then 'a' end", ["a", None, None]),
        ("hour(t) * 100 + minute(t)", [1345] * 3),
        ("year(d) + month(d) + day(d)", [2024 + 5 + 17] * 3),
        ("date_trunc('month', d)", [dt.date(2024, 5, 1)] * 3),
        ("date_trunc('week', t)", [dt.datetime(2024, 5, 13, tzinfo=dt.UTC)] * 3),
        ("date_format(t, \"yyyy/MM/dd'T'HH:mm:ss\")", ["2024/05/17T13:45:12"] * 3),
        ("date_format(d, 'yyyyMMdd 100%')", ["20240517 100%"] * 3),
        ("from_unixtime(n)", ["1970-01-01 00:00:01", "1970-01-01 00:00:02", None]),
        ("from_unixtime(-1, 'HH''''mm')", ["23'59"] * 3),
        ("cast(t as date)", [DAY] * 3),
        ("cast('2024-05-17 13:45:12' as timestamp)", [MOMENT] * 3),
        ("cast(n as string)", ["1", "2", None]),
        ("cast(p as double)", [1.5, 2.25, None]),
        ("date '2024-05-17'", [DAY] * 3),
        ("st.a", [1, 2, None]),
        ("source.n", [5, 6, 7]),
        ("end + `case`", [2, 2, 5]),
        ("'it''s'", ["it's"] * 3),
        ("n > 1 or b", [True, True, None]),
        ("n > 1 and b", [False, False, None]),
        ("null", [None] * 3),
    ],
)
def test_values(text: str, expected: list[Any]) -> None:
    expression = pickle.loads(pickle.dumps(ValueExpression.of(text, ROWS.schema)))  # noqa: S301
    found = expression.of_table(ROWS)
    assert (found.to_pylist(), found.type) == (expected, expression.kind)
    assert expression.of_table(ROWS.slice(0, 0)).type == expression.kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("case when v = 'z' then 0 else cast(v as int) end", [1, 0, 3]),
        ("case when v != 'z' then cast(v as int) else 0 end", [1, 0, 3]),
        ("coalesce(case when v = 'z' then -1 end, cast(v as int))", [1, -1, 3]),
        ("v != 'z' and cast(v as int) > 1", [False, False, True]),
        ("v = 'z' or cast(v as int) > 1", [False, True, True]),
        ("not (v = 'z' or cast(v as int) > 1)", [True, False, False]),
        ("case when i < 100 then 9223372036854775707 + i else 0 end", [9223372036854775708, 0, 9223372036854775579]),
    ],
)
def test_branches_not_taken_cannot_fail(text: str, expected: list[Any]) -> None:
    assert ValueExpression.of(text, ROWS.schema).of_table(ROWS).to_pylist() == expected


def test_many_conditions_that_may_fail() -> None:
    text = " and ".join(f"cast(n as int) / {number} >= 0" for number in range(1, 200))
    passes = Filter.of(text, ROWS.schema)
    assert passes is not None
    assert passes.mask(ROWS).to_pylist() == [True, True, False]


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775807 + n",
        "9223372036854775807 * end",
        "cast(v as int)",
        "cast(f as int)",
        "cast(p as decimal(10,1))",
        "(9007199254740993 + n - n) / 2",
    ],
)
def test_lossy_values_are_errors(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be computed"):
        ValueExpression.of(text, ROWS.schema).of_table(ROWS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "coalesce()",
        "zz",
        "n + s",
        "n || s",
        "f + p",
        "f % 2",
        "not n",
        "lower(n)",
        "foo(n)",
        "lower()",
        "substring(s, n)",
        "cast(n as thing)",
        "case end",
        "case when n then 1 end",
        "case when b then 1 else 'x' end",
        "hour(s)",
        "date_trunc('fortnight', t)",
        "date_format(t, 'EEEE')",
        "date_format(t, n)",
        "from_unixtime(f)",
        "'''x'''",
        "'a' 'b'",
        "s like n",
        "s like 'x\\'",
        "n between 1",
        "n n",
        "@",
        "1 +" * 200 + "1",
        "1/(" * 40 + "n" + ")" * 40,
    ],
)
def test_what_has_no_meaning_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        ValueExpression.of(text, ROWS.schema)


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("not (n in (1))", [1]),
        ("n not in (1)", [1]),
        ("not (n not in (1))", [0]),
        ("n not between 2 and 5", [0]),
        ("n * 2 in (2, 5)", [0]),
        ("lower(s) = 'x'", [0]),
        ("s like '_'", [0]),
        ("s like '%é'", [1]),
        ("s not like 'x%'", [1]),
        ("s like 'y%'", []),
        ("'50%' like '50\\%' and '50%' like '50!%' escape '!' and not '505' like '50\\%'", [0, 1, 2]),
        ("'a.c' like 'a.c' and not 'abc' like 'a.c' and 'a\\nc' like 'a_c'", [0, 1, 2]),
        ("f in (-0.0) and f = -0.0", [2]),
        ("n < f * 2", [0]),
        ("p * 2 = 3", [0]),
        ("wide = 1.0000000000 and wide != 1.0000000001", [0, 1, 2]),
        ("t >= '2024-05-17' and hour(t) = 13", [0, 1, 2]),
        ("coalesce(b, true)", [0, 2]),
        ("true", [0, 1, 2]),
        ("1 = 2 or null", []),
        ("`case` > 1", [2]),
        ("case > 1", [2]),
        ("st.a = 2", [1]),
        ("n <> 1", [1]),
    ],
)
def test_conditions(text: str, passing: list[int]) -> None:
    passes = Filter.of(text, ROWS.schema)
    assert passes is not None
    mask = passes.mask(ROWS)
    assert [row for row, passes in enumerate(mask.to_pylist()) if passes] == passing
    assert mask.null_count == 0


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("i + 0", "i", [1, 127, -128]),
        ("n", "f", [1.0, 2.0, None]),
        ("f * 2", "n", [3, -5, 0]),
        ("f", "g", [1.5, -2.5, 0.0]),
        ("p * 2", "p", [Decimal("3.00"), Decimal("4.50"), None]),
        ("round(p * 1.1, 2)", "p", [Decimal("1.65"), Decimal("2.48"), None]),
        ("round(p / 3, 2)", "p", [Decimal("0.50"), Decimal("0.75"), None]),
        ("null", "t", [None] * 3),
        ("'2024-05-17T13:45:12'", "t", [MOMENT] * 3),
        ("d", "t", [dt.datetime(2024, 5, 17, tzinfo=dt.UTC)] * 3),
        ("1", "p", [Decimal("1.00")] * 3),
    ],
)
def test_assigned_values_keep_their_value(text: str, column: str, expected: list[Any]) -> None:
    field = ROWS.schema.field(column)
    found = ValueExpression.assigned(text, ROWS.schema, field).of_table(ROWS)
    assert (found.to_pylist(), found.type) == (expected, field.type)


@pytest.mark.parametrize(
    ("text", "column"),
    [("i + 1", "i"), ("f + 0.25", "n"), ("f + 1e-12", "g"), ("p * 1.111", "p"), ("9007199254740993 + n * 0", "f")],
)
def test_assigned_values_that_change_are_errors(text: str, column: str) -> None:
    expression = ValueExpression.assigned(text, ROWS.schema, ROWS.schema.field(column))
    with pytest.raises(InvalidInputError):
        expression.of_table(ROWS)


@pytest.mark.parametrize(
    ("text", "column"), [("s", "n"), ("n", "s"), ("f", "p"), ("b", "n"), ("t", "d"), ("'x'", "n"), ("1.5", "n")]
)
def test_types_that_do_not_fit(text: str, column: str) -> None:
    with pytest.raises(InvalidInputError, match="does not fit its column"):
        ValueExpression.assigned(text, ROWS.schema, ROWS.schema.field(column))
