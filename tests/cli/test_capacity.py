"""``rli capacity`` estimates what the stores were measured to take."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rli.cli.app import app


def run(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["capacity", *arguments])
    return outcome.exit_code, outcome.output


@pytest.mark.parametrize(("store", "least", "most"), [("redis", 27, 28), ("lmdb", 49, 50), ("hbase", 26, 28)])
def test_an_entry_of_a_uuid(store: str, least: float, most: float) -> None:
    status, output = run("--records", "1e9", "--key", "uuid", "--store", store, "--json")
    found = json.loads(output)
    assert status == 0
    assert found["records"] == 10**9
    assert found["key_bytes"] == 16
    assert least <= found["bytes_per_entry"] <= most
    assert found["total_bytes"] == pytest.approx(found["bytes_per_entry"] * 1e9, rel=0.01)


def test_large_index_is_shared_by_servers() -> None:
    few = json.loads(run("--records", "1e6", "--store", "redis", "--json")[1])
    many = json.loads(run("--records", "1e10", "--store", "redis", "--json")[1])
    assert few["servers"] == 1
    assert many["servers"] > 10
    assert any("redis+cluster" in sentence for sentence in many["advice"])


def test_keys_of_other_kinds() -> None:
    integer = json.loads(run("--records", "1e9", "--key", "integer", "--store", "redis", "--json")[1])
    text = json.loads(run("--records", "1e9", "--key", "24", "--store", "redis", "--json")[1])
    assert (integer["key_bytes"], text["key_bytes"]) == (5, 25)
    assert integer["bytes_per_entry"] < 16
    assert text["bytes_per_entry"] > 30


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--records", "many", "--store", "redis"), "records=many"),
        (("--records", "0", "--store", "redis"), "records=0"),
        (("--records", "1e9", "--store", "floppy"), "store=floppy"),
        (("--records", "1e9", "--store", "redis", "--key", "blob"), "key=blob"),
    ],
)
def test_wrong_input_is_named(arguments: tuple[str, ...], named: str) -> None:
    status, output = run(*arguments)
    assert status == 2
    assert named in output
