"""The schema of a table's records, as its commits and its properties tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from rli.hudi.avro_schema import from_avro
from rli.hudi.meta_columns import without_meta_columns
from rli.hudi.schema_history import LATEST_SCHEMA, require_found_by_name
from rli.hudi.timeline.commit_metadata import COMPACT
from rli.hudi.timeline.instant import Instant
from rli.hudi.timeline.timeline import Timeline
from rli.view.definition import TableDefinition
from rli.view.table_change import TableChange


def told_schema(
    table: TableDefinition, timeline: Timeline, change_of: Callable[[Instant], TableChange]
) -> pa.Schema | None:
    """Schema of the records without meta columns; None if neither a commit nor the properties tell it.

    Args:
        table: the table.
        timeline: the instants that count.
        change_of: reads what a completed instant changed.
    """
    for change in _changes(timeline, change_of):
        if change.avro_schema:
            if change.extra.get(LATEST_SCHEMA):
                require_found_by_name(table.storage)
            return without_meta_columns(from_avro(change.avro_schema))
    created = table.properties.create_schema
    return without_meta_columns(from_avro(created)) if created else None


def _changes(timeline: Timeline, change_of: Callable[[Instant], TableChange]) -> Iterator[TableChange]:
    """The completed writes that may tell the schema, the best first.

    Of a past state, a compaction comes last: it completed perhaps long after its instant, and has the schema of then.
    """
    is_past = timeline.as_of is not None
    compactions: list[TableChange] = []
    for instant in reversed(timeline.completed_writes):
        change = change_of(instant)
        if is_past and change.operation == COMPACT:
            compactions.append(change)
        else:
            yield change
    yield from compactions
