"""Archives of an engine that knows of no index, and of no write at work."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from pathlib import Path

from rli import open_table
from rli.hudi.timeline.archive import ARCHIVED_ACTIONS
from rli.hudi.timeline.timeline import list_instants
from rli.table.table import opened_table


def archive_before(location: str, instant: str) -> None:
    """Move all completed instants before that one from the active timeline of a local table to its archive."""
    with open_table(location) as table:
        definition = opened_table(table).definition
    layout = definition.timeline_layout
    by_time = groupby(sorted(list_instants(definition.storage, layout), key=attrgetter("time")), attrgetter("time"))
    states = [sorted(some, key=attrgetter("is_completed")) for time, some in by_time if time < instant]
    older = [some for some in states if some[-1].is_completed and some[-1].action in ARCHIVED_ACTIONS]
    if not older:
        return
    file = definition.archive.file_for(older)
    assert file is not None
    Path(location, file.path).parent.mkdir(parents=True, exist_ok=True)
    assert definition.storage.create(file.path, file.content)
    definition.archive.add(file.path, len(file.content), definition.storage.create)
    for some in older:
        for state in some:
            Path(location, layout.path(state.file_name)).unlink()
