"""The examples in the docstrings of public names do what they show."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rli

pytestmark = pytest.mark.every_case

_CREATING = ("rli.create_table", "rli.create_index")
"""Their examples need an empty folder; the others find a table and an index."""


def _examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    public = {name: getattr(rli, name) for name in rli.__all__}
    found: list[doctest.DocTest] = []
    for name, value in public.items():
        # A public name has the methods of its private bases; those of public bases are found there.
        bases = [base for base in getattr(value, "__mro__", ())[1:] if base not in public.values()]
        own = [base for base in bases if base.__module__.startswith("rli.")]
        for source in [value, *own] if callable(value) else []:
            found += finder.find(source, f"rli.{name}", globs={})
    return [test for test in found if test.examples]


EXAMPLES = _examples()


def _names() -> dict[str, Any]:
    table = rli.create_table("trips", record_key="id", partition_by="city", ordering="ts")
    ids, cities = ["a", "b", "c", "d"], ["Rome", "Oslo", "Oslo", "Rome"]
    table.upsert(pa.table({"id": ids, "city": cities, "ts": [1] * 4}))
    return {"pa": pa, "rli": rli, "table": table, "index": rli.create_index("lmdb://" + str(Path.cwd() / "index"))}


@pytest.mark.parametrize("example", EXAMPLES, ids=[test.name for test in EXAMPLES])
def test_an_example_does_what_it_shows(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {} if example.name in _CREATING else _names()
    example.globs.update(names)
    report: list[str] = []
    doctest.DocTestRunner().run(example, out=report.append)
    assert report == []


def test_everyday_calls_have_an_example() -> None:
    everyday = {f"rli.Table.{name}" for name in ("upsert", "delete", "read", "lookup")}
    everyday |= {"rli.TableVersions.rollback", "rli.TableVersions.restore", "rli.TableMaintenance.clean"}
    assert everyday | {*_CREATING, "rli.open_table", "rli.IndexTransaction"} <= {test.name for test in EXAMPLES}
