"""Merges of change batches: the newest change of each key counts, in every form and with every kind of index."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli import Scope, Step, open_table
from tests.support.change_batches import FORMS, Change, MergeModel, Stored, counts, envelope, in_columns, op_of
from tests.support.index_kinds import Kind, every_kind, stored_rows
from tests.support.soak import cases
from tests.support.steps import Once
from tests.support.tables import assert_nothing_left_over, check_stored, records

pytestmark = pytest.mark.invariant("P46")

Image: TypeAlias = dict[str, str | float]
Event: TypeAlias = dict[str, Any]

CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from(["a", "7", "007", "x,y:z", "é"]),
        st.sampled_from("xyz"),
        st.integers(0, 6),
        st.sampled_from([0.5, 1.5]),
        st.sampled_from("cruiddd"),
    ),
    max_size=9,
)


@every_kind
def test_the_newest_change_counts(kind: Kind) -> None:
    @settings(max_examples=cases(5), deadline=None)
    @given(batches=st.lists(st.tuples(st.sampled_from([*FORMS]), CHANGES), min_size=1, max_size=4))
    def check(batches: list[tuple[str, list[Change]]]) -> None:
        model = MergeModel(kind.scope)
        with TemporaryDirectory(prefix="rli-merge-") as folder, kind.create(Path(folder)) as table:
            for number, (form, drawn) in enumerate(batches):
                # No batch repeats the values of an earlier one: equal records may count as unchanged.
                changes = [change._replace(v=(change.v or 0) + 2 * number) for change in drawn]
                done = table.merge(FORMS[form](changes), op_of(form))
                assert counts(done) == model.merge(changes)
                assert sum(counts(done)) + done.duplicates == len(changes)
                assert stored_rows(table) == model.stored()
            assert table.index.verify().agrees
            check_stored(table)

    check()


@every_kind
def test_conditions_decide_on_stored_records(kind: Kind) -> None:
    text = "source.v > target.v or (target.city = 'z' and source.ts < 6)"

    def holds(change: Change, stored: Stored) -> bool:
        return (change.v or 0) > (stored[2] or 0) or (stored[0] == "z" and change.ts < 6)

    @settings(max_examples=cases(5), deadline=None)
    @given(batches=st.lists(st.tuples(st.sampled_from([*FORMS]), CHANGES), min_size=1, max_size=5))
    def check(batches: list[tuple[str, list[Change]]]) -> None:
        model = MergeModel(kind.scope)
        with TemporaryDirectory(prefix="rli-merge-") as folder, kind.create(Path(folder)) as table:
            for number, (form, drawn) in enumerate(batches):
                # Equal records may count as unchanged.
                changes = [change._replace(v=(change.v or 0) + 0.1 * number) for change in drawn]
                done = table.merge(FORMS[form](changes), op_of(form), when=text)
                assert counts(done) == model.merge(changes, holds)
                assert stored_rows(table) == model.stored()
            assert table.index.verify().agrees

    check()


@every_kind
def test_deletes_need_few_columns(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        named = ["id", "ts", "op"] if kind.scope is Scope.GLOBAL else ["id", "city", "ts", "op"]
        gone = in_columns([Change("k", "x", 5, None, "D")]).select(named)
        first = table.merge(gone, op="op")
        assert (counts(first), table.schema) == ((0, 0, 0, 0, 1), None)
        assert table.merge(gone, op="op").instant is None
        late = in_columns([Change("k", "x", 4, 1.0, "c"), Change("l", "x", 4, 1.0, "c")])
        assert counts(table.merge(late, op="op")) == (1, 0, 0, 0, 1)
        again = in_columns([Change("l", "x", 4, None, "delete")]).select(named)
        assert counts(table.merge(again, op="op")) == (0, 0, 0, 1, 0)
        assert stored_rows(table) == frozenset()
        assert_nothing_left_over(table)


@every_kind
def test_changed_keys_leave_nothing_behind(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        renamed = envelope([Change("c", "x", 2, 2.0, "u"), Change("b", "z", 3, 3.0, "u")])
        formers = [{"id": "a", "city": "x", "v": 1.0}, {"id": "b", "city": "y", "v": 1.0}]
        position = renamed.schema.get_field_index("before")
        renamed = renamed.set_column(position, renamed.schema.field(position), [formers])
        moved = (1, 0, 1, 1, 0) if kind.scope is Scope.GLOBAL else (2, 0, 0, 2, 0)
        assert counts(table.merge(renamed)) == moved
        assert stored_rows(table) == {("c", "x", 2, 2.0), ("b", "z", 3, 3.0)}
        # The former key is deleted as of the event.
        assert counts(table.upsert(records(("a", "x", 1, 9.0)))) == (0, 0, 0, 0, 1)


@every_kind
@pytest.mark.parametrize("seed", range(cases(1)))
def test_tables_follow_their_source(kind: Kind, tmp_path: Path, seed: int) -> None:
    """A database whose rows change their keys and partitions; its events come late, twice and in any order."""
    chance = random.Random(f"{kind}{seed}")
    source: dict[str, Image] = {}
    log: list[Event] = []
    for lsn in range(120):
        key, other = (chance.choice("abcdefgh") for _ in range(2))
        before = source.pop(key, None)
        after: Image = {"id": key, "city": chance.choice("xyz"), "v": float(lsn)}
        match chance.randrange(4):
            case 0 if before is not None:
                log.append({"before": before, "after": None, "op": "d", "source": {"ts": lsn}})
                continue
            case 1 if before is not None and other not in source:
                after["id"] = other
        source[str(after["id"])] = after
        op = "c" if before is None else "u"
        log.append({"before": before, "after": after, "op": op, "source": {"ts": lsn}})
    sent = sorted(log + chance.sample(log, 40), key=lambda event: event["source"]["ts"] + chance.randrange(40))
    schema = envelope([]).schema.remove(4)
    with kind.create(tmp_path) as table:
        for start in range(0, len(sent), 20):
            table.merge(pa.Table.from_pylist(sent[start : start + 20], schema))
        found = {(row[0], row[1], row[3]) for row in stored_rows(table)}
        assert found == {tuple(row.values()) for row in source.values()}
        assert table.index.verify().agrees


@every_kind
def test_merges_beside_other_writers(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table, open_table(table.location) as other:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
        changes = [Change("a", "x", 5, None, "d"), Change("b", "x", 5, 5.0, "u"), Change("n", "y", 5, 5.0, "c")]
        meanwhile = Once(
            Step.WRITTEN, lambda: other.merge(in_columns([changes[0]._replace(ts=6, v=6.0, op="u")]), op="op")
        )
        done = table.merge(in_columns(changes), op="op", on_step=meanwhile)
        assert (counts(done), done.attempts) == ((1, 1, 0, 0, 1), 2)
        assert stored_rows(table) == {("a", "x", 6, 6.0), ("b", "x", 5, 5.0), ("n", "y", 5, 5.0)}
        # A delete of a key that the other one inserts meanwhile.
        late = Once(Step.WRITTEN, lambda: other.upsert(records(("m", "y", 4, 4.0))))
        done = table.merge(in_columns([Change("m", "y", 5, None, "d")]), op="op", on_step=late)
        assert counts(done) == (0, 0, 0, 1, 0)
        assert table.index.verify().agrees
