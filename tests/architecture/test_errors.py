from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path

import pytest

from rli import errors

pytestmark = pytest.mark.every_case

ROOT = Path(__file__).parents[2]

ERROR_CLASSES = [
    member
    for _, member in inspect.getmembers(errors, inspect.isclass)
    if issubclass(member, BaseException) and member.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_errors_derive_from_base_class(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.RliError)


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_every_error_survives_pickling(kind: type[Exception]) -> None:
    copy = pickle.loads(pickle.dumps(kind("lock is held: key=k1")))  # noqa: S301  (our own bytes)
    assert type(copy) is kind
    assert str(copy) == "lock is held: key=k1"


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_every_error_keeps_its_remedy(kind: type[errors.RliError]) -> None:
    error = kind("lock is held: key=k1", remedy="wait; then try again")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes)
    assert str(copy) == "lock is held: key=k1; wait; then try again"
    assert (copy.problem, copy.remedy) == ("lock is held: key=k1", "wait; then try again")


def test_remedies_stand_apart_from_words() -> None:
    error = errors.RliError("locks are held: k1; k2")
    assert (error.problem, error.remedy) == ("locks are held: k1; k2", None)


def test_every_raise_names_a_remedy() -> None:
    classes = {kind.__name__ for kind in ERROR_CLASSES} | {"ObjectStoreError", "ObjectStoreRefusalError"}
    calls = [
        (f"{path.relative_to(ROOT)}:{call.lineno}", call)
        for room in ("rli", "backends", "spark/rli_spark", "examples")
        for path in sorted((ROOT / room).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in classes
    ]
    assert len(calls) > 500
    assert [place for place, call in calls if "remedy" not in {word.arg for word in call.keywords}] == []


@pytest.mark.parametrize("kind", [errors.ConflictError, errors.LeaseLostError])
def test_pickled_conflict_keeps_its_fields(kind: type[errors.ConflictError]) -> None:
    error = kind("keys were taken", keys=("k1", "k2"), key_count=7, instants=("20240101000000000",))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes)
    assert (type(copy), str(copy)) == (kind, "keys were taken")
    assert (copy.keys, copy.key_count, copy.instants) == (("k1", "k2"), 7, ("20240101000000000",))
