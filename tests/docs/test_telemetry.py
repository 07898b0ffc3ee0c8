"""The tables of log events and metrics are complete."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from rli.telemetry.events import EVENTS
from rli.telemetry.metrics import METRICS

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROW = re.compile(r"^\| `([a-z_.]+)` \| ([^|]+) \| ([^|]*) \|", re.MULTILINE)
NAME = re.compile(r"`([a-z_]+)`")


def test_events_are_documented_with_their_fields() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    found = {name: (level.strip(), NAME.findall(fields)) for name, level, fields in ROW.findall(text)}
    expected = {event.name: (logging.getLevelName(event.level), list(event.fields)) for event in EVENTS.values()}
    assert {name: found.get(name) for name in expected} == expected


def test_metrics_are_documented_with_their_attributes() -> None:
    text = (DOCS / "how-to" / "metrics.md").read_text(encoding="utf-8")
    found = {name: (kind.strip(), NAME.findall(attributes)) for name, kind, attributes in ROW.findall(text)}
    expected = {metric.name: (metric.kind, list(metric.attributes)) for metric in METRICS.values()}
    assert found == expected
