"""The data of the demo: who holds which .gov domain, month by month (see the README beside the files)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.cli.files.column_types import ExpectedColumns
from rli.cli.files.input import RecordFile

RECORD_KEY: Final = "domain_name"
PARTITION: Final = "domain_type"
ORDERING: Final = "month"

_FOLDER: Final = files("rli") / "demo" / "data" / "dotgov"
_OPERATION: Final = "op"
_ANY: Final = ExpectedColumns(None, frozenset())


@dataclass(frozen=True, slots=True)
class Batch:
    """What one month changed.

    Attributes:
        month: such as ``2024-03``.
        records: new and changed records, with the month as their ordering value.
        gone: record keys of domains that were given up.
        live_after: how many domains there are at the end of the month, as the registry has it.
    """

    month: str
    records: pa.Table
    gone: list[str]
    live_after: int


def load_batches() -> Iterator[Batch]:
    """All months, in order."""
    listing = (_FOLDER / "batches.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(listing.splitlines()):
        with as_file(_FOLDER / row["file"]) as path:
            changes = RecordFile.at(str(path)).read(_ANY, rename_columns=True)
        yield _batch(changes, row["committed_at"][:7], int(row["live_after"]))


def _batch(changes: pa.Table, month: str, live_after: int) -> Batch:
    is_gone = pc.equal(changes.column(_OPERATION), "D")
    records = changes.filter(pc.invert(is_gone)).drop_columns([_OPERATION])
    return Batch(
        month=month,
        records=records.append_column(ORDERING, pa.repeat(pa.scalar(month), records.num_rows)),
        gone=changes.filter(is_gone).column(RECORD_KEY).to_pylist(),
        live_after=live_after,
    )
