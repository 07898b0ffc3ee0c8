from __future__ import annotations

import inspect
import pickle

import pytest

from rli import errors

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


def test_a_message_tells_its_remedy() -> None:
    error = errors.RliError("lock is held: key=k1; wait")
    assert (error.problem, error.remedy) == ("lock is held: key=k1", "wait")
    assert errors.RliError("lock is held").remedy is None


@pytest.mark.parametrize("kind", [errors.ConflictError, errors.LeaseLostError])
def test_pickled_conflict_keeps_its_fields(kind: type[errors.ConflictError]) -> None:
    error = kind("keys were taken", keys=("k1", "k2"), key_count=7, instants=("20240101000000000",))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes)
    assert (type(copy), str(copy)) == (kind, "keys were taken")
    assert (copy.keys, copy.key_count, copy.instants) == (("k1", "k2"), 7, ("20240101000000000",))
