"""The examples in the docstrings of ``rli.store`` do what they show."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import rli.store


def _examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    public = [(name, getattr(rli.store, name)) for name in rli.store.__all__]
    own = [(name, value) for name, value in public if inspect.isclass(value) or inspect.isfunction(value)]
    found = [test for name, value in own for test in finder.find(value, name, globs={})]
    return [test for test in found if test.examples]


EXAMPLES = _examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=[test.name for test in EXAMPLES])
def test_an_example_does_what_it_shows(example: doctest.DocTest) -> None:
    example.globs.update(vars(rli.store) | {"np": np})
    report: list[str] = []
    doctest.DocTestRunner().run(example, out=report.append)
    assert report == []


def test_essential_names_have_examples() -> None:
    assert {"EncodedKeys", "Retries", "open_store", "pack", "supersedes"} <= {test.name for test in EXAMPLES}
