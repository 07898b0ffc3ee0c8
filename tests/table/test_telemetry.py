"""What operators are told: log records with fields of stable names, metrics, and what a write took."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from rli import CommitResult, SchemaError, Step, Table, create_table, open_table
from rli.index.record.table.index import RecordTableIndex
from rli.model import Phase
from rli.table.table import opened_table
from rli.telemetry.events import EVENTS
from rli.telemetry.metrics import METRICS
from rli.telemetry.store_calls import SLOW_SECONDS
from tests.support.children import start_child, was_killed
from tests.support.faults import PointedStore
from tests.support.indexes import record_index
from tests.support.tables import records

BEFORE = records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0))
LATER = records(("a", "x", 2, 2.0), ("b", "z", 2, 2.0), ("c", "x", 2, 2.0))


class Told:
    """The events that were logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def fields(self, event: str) -> dict[str, Any]:
        """The fields of the last such event."""
        found = [record for record in self._caplog.records if getattr(record, "rli_event", None) == event]
        assert found, f"{event} is not among {self.names}"
        assert found[-1].levelno == EVENTS[event].level
        return {name: getattr(found[-1], f"rli_{name}") for name in EVENTS[event].fields}

    @property
    def names(self) -> list[str]:
        return [record.rli_event for record in self._caplog.records if hasattr(record, "rli_event")]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Told]:
    with caplog.at_level(logging.DEBUG, logger="rli"):
        yield Told(caplog)


def test_logged_commit_has_counts_and_durations(trips: Table, told: Told) -> None:
    trips.upsert(BEFORE)
    result = trips.upsert(LATER)
    fields = told.fields("commit.done")
    assert (fields["inserted"], fields["updated"], fields["moved"]) == (1, 1, 1)
    assert fields["table"] == trips.location
    assert fields["operation"] == "upsert"
    assert fields["instant"] == result.instant
    assert (fields["attempts"], fields["conflicts"]) == (1, 0)
    assert fields["bytes"] == result.written_bytes
    assert fields["seconds_by_step"] == result.seconds
    assert sum(result.seconds.values()) <= fields["seconds"]


def test_result_reports_duration_per_phase(trips: Table) -> None:
    phases = [phase.value for phase in Phase if phase is not Phase.RETRIES]
    assert list(trips.upsert(BEFORE).seconds) == phases
    assert list(trips.delete(["a"]).seconds) == phases
    assert trips.delete(["nobody"]).instant is None


def test_unchanged_write_is_logged(trips: Table, told: Told) -> None:
    trips.upsert(BEFORE)
    trips.delete(["nobody"])
    assert told.fields("commit.empty")["unchanged"] == 1


def test_conflict_is_logged_with_its_cause(trips: Table, told: Told) -> None:
    result = upserted_after_a_conflict(trips)
    fields = told.fields("commit.retried")
    assert (fields["attempt"], fields["keys"]) == (1, 2)
    assert "ConflictError" in fields["cause"]
    assert (result.attempts, result.conflicts) == (2, 1)
    assert Phase.RETRIES in result.seconds
    assert told.fields("commit.done")["conflicts"] == 1


def test_commits_keep_attempts_and_phases(trips: Table) -> None:
    result = upserted_after_a_conflict(trips)
    entry = trips.history(limit=1)[0]
    assert (entry.time, entry.attempts, entry.conflicts) == (result.instant, 2, 1)
    assert list(entry.phases) == ["begin", "retries", "tag", "write", "lease"]
    assert entry.phases["retries"] == round(result.seconds["retries"], 3)


def test_failed_write_is_logged_with_cause(trips: Table, told: Told) -> None:
    trips.upsert(BEFORE)
    with pytest.raises(ValueError, match="not today"):
        trips.upsert(LATER, on_step=fail_when_written)
    fields = told.fields("commit.failed")
    assert (fields["operation"], fields["cause"]) == ("upsert", "ValueError: not today")
    assert fields["table"] == trips.location


def test_refused_records_are_no_failed_write(trips: Table, told: Told) -> None:
    trips.upsert(BEFORE)
    changed = BEFORE.set_column(BEFORE.schema.get_field_index("ts"), "ts", pa.array(["x"] * BEFORE.num_rows))
    with pytest.raises(SchemaError):
        trips.upsert(changed)
    assert "commit.failed" not in told.names


def upserted_after_a_conflict(trips: Table) -> CommitResult:
    trips.upsert(records(("s", "q", 1, 1.0)))
    batches = iter([BEFORE])

    def interrupt_once(step: Step) -> None:
        if step is Step.WRITTEN:
            for batch in batches:
                open_table(trips.location).upsert(batch)

    return trips.upsert(LATER, on_step=interrupt_once)


def fail_when_written(step: Step) -> None:
    if step is Step.WRITTEN:
        raise ValueError("not today")


def upsert_and_die(folder: Path) -> None:
    def die_when_promoted(step: Step) -> None:
        if step is Step.PROMOTED:
            os.kill(os.getpid(), signal.SIGKILL)

    open_table(folder).upsert(LATER, on_step=die_when_promoted)


def publish_and_die(folder: Path) -> None:
    def die_when_published(step: Step) -> None:
        if step is Step.PUBLISHED:
            os.kill(os.getpid(), signal.SIGKILL)

    open_table(folder).upsert(LATER, on_step=die_when_published)


def test_recovered_dead_writer_is_logged(tmp_path: Path, told: Told) -> None:
    with create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts") as table:
        table.upsert(BEFORE)
    assert was_killed(upsert_and_die, tmp_path / "t")
    with open_table(tmp_path / "t") as table:
        table.upsert(BEFORE)
        [lost] = told.fields("lease.taken_over")["displaced"]
        recovered = told.fields("writer.recovered")
    assert recovered["instant"] == lost
    assert recovered["outcome"] == "rolled back"
    assert recovered["is_on_this_host"] is True


def test_services_are_logged(trips: Table, told: Told) -> None:
    trips.upsert(BEFORE)
    last = trips.upsert(LATER).instant
    assert last is not None
    trips.sync_index()
    trips.verify_index()
    trips.rollback(last)
    trips.upsert(LATER)
    trips.clean(keep_commits=1)
    trips.archive(keep_commits=1)
    trips.bootstrap_index()
    for event in ("sync.done", "index.agrees", "rollback.done", "clean.done", "index.built"):
        assert told.fields(event)["table"] == trips.location
    assert told.fields("rollback.done")["instant"] == last


def test_slow_store_is_named(trips: Table, told: Told) -> None:
    def be_slow(point: str) -> None:
        if point == "before put":
            time.sleep(SLOW_SECONDS + 0.1)

    index = record_index(trips)
    opened_table(trips)._index = RecordTableIndex(PointedStore(index.store, be_slow), index.settings)  # noqa: SLF001
    trips.upsert(BEFORE)
    fields = told.fields("store.slow")
    assert (fields["store"], fields["call"], fields["keys"]) == (trips.index.url, "put", 2)


# Metrics -------------------------------------------------------------------------------------------------------


def test_configured_provider_records_metrics(tmp_path: Path) -> None:
    # OpenTelemetry takes one provider in the life of a process.
    assert exit_code(write_and_measure, tmp_path) == 0


def test_lag_is_a_gauge(tmp_path: Path) -> None:
    create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts").close()
    assert was_killed(publish_and_die, tmp_path / "t")
    assert exit_code(measure_lag, tmp_path) == 0


def test_writes_work_without_opentelemetry(tmp_path: Path) -> None:
    assert exit_code(write_without_opentelemetry, tmp_path) == 0


def exit_code(work: Callable[[Path], None], folder: Path) -> int | None:
    child = start_child(work, folder)
    child.join()
    return child.exitcode


def write_and_measure(folder: Path) -> None:
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    write_twice(folder)
    after = measured(reader)
    for change, count in (("inserted", 3), ("updated", 1), ("moved", 1)):
        assert after["rli.records", "upsert", change] == count
    assert after["rli.writes", "upsert", "committed"] == 2
    assert after["rli.write.duration", "upsert"] == 2
    assert after["rli.store.keys", "memory", "put"] == 4
    assert {name for name, *_ in after} <= METRICS.keys()
    table = create_table(folder / "held", record_key="id", partition_by="city", ordering="ts", metadata=["files"])
    table.upsert(BEFORE)
    Path(table.location, ".hoodie/20200101000000000.commit.requested").touch()
    table.metadata.compact()
    assert measured(reader)["rli.metadata.held_back", table.location] == 1
    deep = create_table(folder / "deep", record_key="id", table_type="merge_on_read", index="memory:deep")
    for _ in range(3):
        deep.upsert(BEFORE)
        deep.upsert(LATER)
    deep.info()
    assert measured(reader)["rli.slice.log_files", deep.location] == 4


def measure_lag(folder: Path) -> None:
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    with open_table(folder / "t") as table:
        table.info()
        assert measured(reader)["rli.index.lag", table.location] == 1
        table.lookup(["a"])
        assert measured(reader)["rli.index.lag", table.location] == 0


def write_without_opentelemetry(folder: Path) -> None:
    sys.modules["opentelemetry"] = None  # type: ignore[assignment]  # so that it cannot be imported
    write_twice(folder)


def write_twice(folder: Path) -> None:
    table = create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", index="memory:measured")
    table.upsert(BEFORE)
    table.upsert(LATER)


def measured(reader: InMemoryMetricReader) -> Mapping[tuple[str, ...], float]:
    """Counts by the metric's name and the values of its attributes."""
    data = reader.get_metrics_data()
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for resource in data.resource_metrics if data else ():
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            for point in metric.data.data_points:
                values = [str((point.attributes or {})[name]) for name in METRICS[metric.name].attributes]
                found[metric.name, *values] = point.value if isinstance(point, NumberDataPoint) else point.count
    return found
