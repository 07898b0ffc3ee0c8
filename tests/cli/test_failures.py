"""Failures by class: an exit status, and code, message and remedy as JSON."""

from __future__ import annotations

import re

import pytest

from rli import errors, open_table
from rli.cli.failures import exit_status
from rli.coordination.lease import LEASE, HeldLease
from rli.coordination.shared_records import shared_records
from rli.table.table import opened_table
from tests.cli.conftest import Rli

_DEAD = "redis://127.0.0.1:1/0?timeout=0.1"


def test_json_names_class_and_remedy(rli: Rli) -> None:
    failed = rli("lookup", "nosuch", "k", "--json", status=2)
    assert failed.json == {
        "error": {
            "code": "TableNotFoundError",
            "message": "there is no table here, .hoodie/hoodie.properties is missing: path=nosuch",
            "remedy": "check the path, or create the table",
        }
    }
    assert failed.err.startswith("error: there is no table here")


def test_wrong_usage_is_json_too(rli: Rli) -> None:
    assert rli("upsert", "--json", "--nme", "x", status=2).json["error"]["code"] == "UsageError"
    assert rli("upsert", "--", "--json", status=2).out == ""


def test_without_json_output_stays_empty(rli: Rli) -> None:
    assert rli("lookup", "nosuch", "k", status=2).out == ""


def test_a_dead_store_has_its_status(rli: Rli) -> None:
    failed = rli("index", "stats", _DEAD, "--json", status=4)
    assert failed.json["error"]["code"] == "StoreUnavailableError"
    assert "built again from the table" in failed.json["error"]["remedy"]


def test_a_held_lease_has_its_status(rli: Rli, trips: str) -> None:
    with open_table(trips) as table:
        holder = HeldLease(
            shared_records(opened_table(table).definition, opened_table(table).index), LEASE, "a long service"
        )
        assert holder.take(over=None)
        failed = rli("clean", trips, "--timeout", "0", "--json", status=3)
        assert holder.release()
    assert failed.json["error"]["code"] == "LeaseBusyError"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConflictError("x"), 3),
        (errors.LeaseLostError("x"), 3),
        (errors.VoidAttemptError("x"), 3),
        (errors.StoreRestartedError("x"), 4),
        (errors.SchemaError("x"), 2),
        (errors.IndexNotReadyError("x"), 2),
    ],
)
def test_each_class_has_its_status(error: errors.RliError, status: int) -> None:
    assert exit_status(error) == status


def test_info_gives_up_dead_store_early(rli: Rli, trips: str) -> None:
    found = rli("info", trips, "--index", "redis://127.0.0.1:1/0", "--json", status=1).json
    assert "the store does not answer: store=redis://127.0.0.1:1/0" in found["problems"][0]
    # Its own deadline is thirty seconds.
    [seconds] = re.findall(r" seconds=([\d.]+) ", found["problems"][0])
    assert float(seconds) < 30
    assert found["commits"] == 2
