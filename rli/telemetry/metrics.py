"""Metrics by OpenTelemetry's API: recorded where its package is installed and an application has configured it.

Without the package (the extra ``metrics``) each call does nothing. With it, OpenTelemetry's own API drops what is
recorded until the application sets a meter provider. docs/how-to/metrics.md lists the metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

_METER: Final = "rli"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds of a histogram's buckets: OpenTelemetry's own are meant for milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A counter, or a histogram of durations.

    Attributes:
        name: stable.
        kind: of the instrument.
        unit: as OpenTelemetry writes it.
        description: one line.
        attributes: names of the attributes that each value has.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    description: str
    attributes: tuple[str, ...] = ()

    def add(self, value: float, **attributes: str) -> None:
        """Add to a counter, or record a duration in seconds."""
        self._record(value, attributes)

    def set(self, value: float, **attributes: str) -> None:
        """Set a gauge."""
        self._record(value, attributes)

    def _record(self, value: float, attributes: dict[str, str]) -> None:
        record = _recorder(self)
        if record is not None:
            record(value, attributes)


METRICS: Final[dict[str, Metric]] = {}
"""Every metric, by name."""


def _counter(name: str, unit: str, description: str, *attributes: str) -> Metric:
    METRICS[name] = metric = Metric(name, "counter", unit, description, attributes)
    return metric


def _gauge(name: str, unit: str, description: str, *attributes: str) -> Metric:
    METRICS[name] = metric = Metric(name, "gauge", unit, description, attributes)
    return metric


def _durations(name: str, description: str, *attributes: str) -> Metric:
    METRICS[name] = metric = Metric(name, "histogram", "s", description, attributes)
    return metric


@cache
def _recorder(metric: Metric) -> Callable[[float, dict[str, str]], None] | None:
    """Records a value of a metric; None without OpenTelemetry."""
    meter = _meter()
    if meter is None:
        return None
    if metric.kind == "counter":
        return meter.create_counter(metric.name, metric.unit, metric.description).add
    if metric.kind == "gauge":
        return meter.create_gauge(metric.name, metric.unit, metric.description).set
    try:
        histogram = meter.create_histogram(
            metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=_SECONDS
        )
    except TypeError:
        # Older versions of the API take no advice on buckets.
        histogram = meter.create_histogram(metric.name, metric.unit, metric.description)
    return histogram.record


@cache
def _meter() -> Any:
    try:
        # Optional, and slow to load.
        from opentelemetry import metrics  # noqa: PLC0415
    except ImportError:
        return None
    return metrics.get_meter(_METER)


WRITES: Final = _counter("rli.writes", "{write}", "Writes by how they ended", "operation", "outcome")
RECORDS: Final = _counter("rli.records", "{record}", "Records of committed writes", "operation", "change")
WRITTEN_BYTES: Final = _counter("rli.written_bytes", "By", "Size of the base files of committed writes", "operation")
WRITE_SECONDS: Final = _durations("rli.write.duration", "Duration of a committed write with all attempts", "operation")
STEP_SECONDS: Final = _durations("rli.write.step.duration", "Duration of a step of a committed write", "step")
RETRIES: Final = _counter("rli.write.retries", "{attempt}", "Attempts to write that were repeated", "reason")
LEASE_SECONDS: Final = _durations(
    "rli.lease.wait", "Time from asking for the lease, or for the lock of Hudi's writers, until it is held", "awaited"
)
LOCK_SECONDS: Final = _durations("rli.lock.held", "Time for which a process holds the lock of Hudi's writers")
RECOVERED_WRITERS: Final = _counter(
    "rli.recovered_writers", "{writer}", "Dead writers that were cleared up after", "outcome"
)
METADATA_HELD_BACK: Final = _counter(
    "rli.metadata.held_back",
    "{compaction}",
    "Compactions of metadata tables that a pending instant has held back",
    "table",
)
METADATA_FAILURES: Final = _counter(
    "rli.metadata.failures",
    "{failure}",
    "Partitions of metadata tables that reads could not rely on",
    "partition",
)
COLUMN_INDEX_USES: Final = _counter(
    "rli.column_index.uses", "{read}", "Reads that asked an index on a column, and got an answer", "table", "index"
)
COLUMN_INDEX_SKIPPED: Final = _counter(
    "rli.column_index.skipped_files",
    "{file}",
    "File groups that reads left out because of an index on a column",
    "table", "index",
)  # fmt: skip
INDEX_LAG: Final = _gauge("rli.index.lag", "{commit}", "Commits of a table that its index has not applied", "table")
APPLIED_COMMITS: Final = _counter("rli.sync.commits", "{commit}", "Commits applied to an index")
SYNC_SECONDS: Final = _durations("rli.sync.duration", "Duration of a sync that applied commits")
COMPARISONS: Final = _counter(
    "rli.index.comparisons",
    "{comparison}",
    "Record keys compared with the keys of a file that may hold them",
    "outcome",
)
SERVICES: Final = _counter("rli.services", "{service}", "Table services that were completed", "service")
DEEPEST_SLICE: Final = _gauge(
    "rli.slice.log_files",
    "{file}",
    "Log files of the deepest file slice of a merge-on-read table",
    "table",
)
METADATA_DELTACOMMITS: Final = _gauge(
    "rli.metadata.deltacommits",
    "{deltacommit}",
    "Deltacommits of the metadata table since its last compaction",
    "table",
)
STORE_SECONDS: Final = _durations(
    "rli.store.duration", "Duration of a batch of look-ups or changes in a store", "store", "call"
)
STORE_KEYS: Final = _counter("rli.store.keys", "{key}", "Record keys looked up or changed in a store", "store", "call")
STORE_RETRIES: Final = _counter("rli.store.retries", "{request}", "Requests that a store did not answer", "store")
