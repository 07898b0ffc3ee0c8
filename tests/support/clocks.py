"""The clock of this process's tables, moved on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rli.view.definition import TableDefinition


def later(monkeypatch: pytest.MonkeyPatch, time: timedelta) -> None:
    """Let all tables of this process take the time for later than it is, by so much more than before."""
    now = TableDefinition.now
    monkeypatch.setattr(TableDefinition, "now", lambda definition: now(definition) + time)
