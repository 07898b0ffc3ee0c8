"""What the state of a stream says of keys, and when it says nothing; no Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState

import rli
from rli.file_group import work_rows
from rli.index.following import Position
from rli.table.table import opened_table
from rli.view.given_keys import table_keys
from rli.view.snapshot import Snapshot
from rli.write.rows.keying import RecordKeying
from rli_spark.rows.row_batches import DATA, HASHES, ROWS, packed, unpack
from rli_spark.streams.base import LOCATION
from rli_spark.streams.location_state import LocationState, StoredState
from rli_spark.streams.request import StreamEngine
from rli_spark.streams.tagger import _SEEN, FOUND, BucketTagger
from tests.support.tables import records

pytestmark = pytest.mark.invariant("P38")


class Kept:
    """What Spark keeps for a bucket, as its ``GroupState``."""

    exists = False

    def update(self, state: StoredState) -> None:
        self.exists, self.get = True, state

    def remove(self) -> None:
        self.exists = False


def found(table: rli.Table, state: Kept, *keys: str) -> list[str] | None:
    """The partitions that the state knows of some keys; None where it cannot tell. Keys are forgotten at once."""
    _SEEN.clear()
    rows = packed(pa.table({work_rows.RECORD_KEY: pa.array(keys)}))
    tagger = BucketTagger(opened_table(table).definition, "stream", 1, 1e-6)
    (told,) = tagger((0,), [pd.DataFrame({DATA: [rows], ROWS: [len(keys)], HASHES: [0]})], cast("GroupState", state))
    (locations,) = told[FOUND]
    return None if locations is None else unpack(locations)["partition_path"].to_pylist()


def test_forgotten_moved_key_is_not_new(tmp_path: Path) -> None:
    table, state = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", index="simple:"), Kept()
    table.insert(records(("a", "x", 1, 1.0)))
    position = Position.of(Snapshot.now(opened_table(table).definition.reloaded()))
    state.update(LocationState.new(1, position, table.lookup(["a"]).select(LOCATION)).to_stored())
    assert found(table, state, "b") == []
    table.insert(records(("a", "y", 1, 1.0)))
    assert found(table, state, "a") is None


def test_changed_scope_ends_stream(tmp_path: Path) -> None:
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="city", index="simple:")
    definition, index = opened_table(table).refreshed()
    keying = RecordKeying(table_keys(definition), None, index.scope)
    # By one key of the whole table, one of two records would have been left out.
    engine = StreamEngine(cast("SparkSession", None), records().schema, rli.Scope.GLOBAL, [])
    request = engine.request(cast("DataFrame", None), keying, definition, index)
    with pytest.raises(rli.SettingsError, match="another scope since the stream was started"), request:
        raise AssertionError
