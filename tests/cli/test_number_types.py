"""Numbers that do not fit a column: the message names the type that holds them, and the type works."""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import rli as library
from tests.cli.conftest import Rli

WIDER = [
    (pa.int32(), "5000000000", "bigint", 5_000_000_000),
    (pa.float32(), "16777217", "double", 16_777_217.0),
    (pa.float32(), "1e300", "double", 1e300),
    (pa.decimal128(5, 2), "12345.678", "decimal(8,3)", Decimal("12345.678")),
    (pa.int64(), "007", "bigint", 7),
]
TOO_LARGE = [
    (pa.int32(), "18446744073709551617", "decimal(20,0)"),
    (pa.int64(), "1.5", "double"),
    (pa.float64(), "9007199254740993", "bigint"),
    (pa.float64(), "1e999", "string"),
    (pa.decimal128(38, 0), "0.5", "double"),
]
NEW = [
    (["1.10", "2"], "double"),
    (["9007199254740993", "0.5"], "decimal(17,1)"),
    (["18446744073709551617"], "decimal(20,0)"),
    (["9223372036854775808"], "decimal(19,0)"),
]


@pytest.fixture
def table(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    with library.create_table(tmp_path / "t", record_key="id", index="global-simple:") as created:
        created.upsert(pa.table({"id": ["a"], "n": pa.array(["1"]).cast(request.param)}))
        return created.location


def write(*numbers: str) -> str:
    """A file in the folder of the commands."""
    path = Path("more.csv")
    path.write_text("id,n\n" + "".join(f"b{row},{number}\n" for row, number in enumerate(numbers)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("table", "number", "kind", "value"), WIDER, indirect=["table"])
def test_the_wider_type_is_named(rli: Rli, table: str, number: str, kind: str, value: object) -> None:
    path = write(number)
    refused = rli("upsert", table, path, status=2).err
    assert f":2 column=n value={number!r}" in refused
    # As a shell takes it from the message.
    [option] = re.findall(r"--column-type ('[^']+'|[^ ,]+)", refused)
    [option] = shlex.split(option)
    assert option == f"n={kind}"
    rli("upsert", table, path, "--column-type", option)
    with library.open_table(table) as opened:
        assert sorted(opened.read().column("n").to_pylist()) == [1, value]


@pytest.mark.parametrize(("table", "number", "kind"), TOO_LARGE, indirect=["table"])
def test_no_type_that_loses_digits(rli: Rli, table: str, number: str, kind: str) -> None:
    refused = rli("upsert", table, write(number), status=2).err
    assert "no wider type holds these numbers and those of the table" in refused
    assert f"--column-type {shlex.quote(f'NEW={kind}')}" in refused


@pytest.mark.parametrize(("numbers", "kind"), NEW)
def test_new_columns_of_numbers(rli: Rli, numbers: list[str], kind: str) -> None:
    rli("create", "t", "--record-key", "id")
    path = write(*numbers)
    rli("create", "o", "--record-key", "id", "--ordering", "n")
    assert f"give --column-type {shlex.quote(f'n={kind}')}" in rli("upsert", "o", path, status=2).err
    noted = rli("upsert", "t", path).err
    assert f"if the column holds numbers, give --column-type {shlex.quote(f'n={kind}')}" in noted
    rli("create", "u", "--record-key", "id")
    rli("upsert", "u", path, "--column-type", f"n={kind}")
    with library.open_table("u") as opened:
        assert [Decimal(str(n)) for n in opened.read().sort_by("id").column("n").to_pylist()] == [
            *map(Decimal, numbers)
        ]


@pytest.mark.parametrize(
    "given", ["n", "n=", "=int", "n=decimal(39,0)", "n=decimal(2,3)", "n=text", "a.b=int", "a.=string"]
)
def test_mistaken_types(rli: Rli, given: str) -> None:
    rli("create", "t", "--record-key", "id")
    assert given in rli("upsert", "t", "no.csv", "--column-type", given, status=2).err
