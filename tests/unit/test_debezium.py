"""Debezium's envelope, taken apart in parts."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from rli.write.rows.debezium import EnvelopeForm
from tests.support.change_batches import Change, envelope


@pytest.mark.parametrize("part_bytes", [1, 100, 1000])
def test_parts_give_changes_of_the_whole(part_bytes: int) -> None:
    changes = [Change(f"k{number % 5}", "x", number, 1.0, "cud"[number % 3]) for number in range(30)]
    rows = envelope(changes)
    position = rows.schema.get_field_index("before")
    former = [{"id": f"k{number % 7}", "city": "x", "v": 1.0} for number in range(rows.num_rows)]
    rows = rows.set_column(position, rows.schema.field(position), pa.array(former, rows.schema.field(position).type))
    form = EnvelopeForm.of(rows.schema, None, record_key=("id",), partition=(), ordering="ts")
    assert form is not None
    rows = rows.filter(rows.column("op").is_valid())
    whole, parts = form.changes(rows), replace(form, part_bytes=part_bytes).changes(rows)
    assert parts.images.equals(whole.images)
    assert parts.deletes.tolist() == whole.deletes.tolist()
    assert whole.images.num_rows > rows.num_rows
