"""A write that is published is made once, whatever fails afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import ConflictError, Step, VoidAttemptError, create_table
from rli.errors import RliError
from tests.support.tables import records


@pytest.mark.parametrize("failure", [ConflictError("another table's"), VoidAttemptError("another table's")])
def test_a_callback_that_fails_after_the_publication_does_not_repeat_the_write(
    tmp_path: Path, failure: RliError
) -> None:
    table = create_table(tmp_path / "table", record_key="id", partition_by="city")
    steps = list[Step]()

    def on_step(reached: Step) -> None:
        steps.append(reached)
        if reached is Step.PUBLISHED:
            raise failure

    with pytest.raises(type(failure), match="another table's"):
        table.upsert(records(("a", "x", 1, 1.0)), on_step=on_step)
    assert steps.count(Step.REQUESTED) == 1
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x"]
