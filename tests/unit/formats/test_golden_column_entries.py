"""Entries of the index of a column in a store, as version 1 of their format has them: stored indexes go on to be read.

The file ``tests/data/golden/column-entries-1.json`` is never changed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from rli.hudi.metadata.secondary_keys import index_form
from rli.index.record.columns.entry_keys import entry_keys, prefixes_of, record_keys_of
from rli.index.record.columns.stored_column import ColumnSettings

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "golden" / "column-entries-1.json").read_text())


def test_entry_keys_are_as_stored() -> None:
    for entry in GOLDEN["entries"]:
        values, keys = pa.array([entry["value"]]), pa.array([entry["record_key"]])
        [found] = entry_keys(values, keys, GOLDEN["shards"])
        assert (found.to_bytes(), found.shards.tolist()) == ([bytes.fromhex(entry["key"])], [entry["shard"]])
        assert record_keys_of(found).to_pylist() == [entry["record_key"]]
        [prefix] = prefixes_of(values, GOLDEN["shards"]).to_bytes()
        assert found.to_bytes()[0].startswith(prefix)


def test_values_are_printed_as_stored() -> None:
    kinds = {"date": pa.date32(), "long": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
    for name, (stored, printed) in GOLDEN["printed"].items():
        ints = pa.int32() if name == "date" else pa.int64()
        values = pa.array([stored]) if name == "string" else pa.array([stored], ints).cast(kinds[name])
        assert index_form(values).to_pylist() == [printed]


def test_stored_settings_are_read() -> None:
    stored = json.dumps(GOLDEN["settings"]).encode()
    assert json.loads(ColumnSettings.from_json(stored).to_json()) == GOLDEN["settings"]
