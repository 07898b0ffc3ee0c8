"""Verifying an index that reads the table's own files: do its keys stand in them once?"""

from __future__ import annotations

from typing import Final

from rli.index.repeats import find_repeats
from rli.index.reports import VerifyReport
from rli.model import Scope
from rli.view.snapshot import Snapshot

_SAMPLE: Final = 10


def verify_keys(snapshot: Snapshot, scope: Scope) -> VerifyReport:
    """Count the records, and those whose key another record of the scope has.

    Args:
        snapshot: the table, with a list of all its files.
        scope: where a key is unique.

    Raises:
        CorruptTableError: a base file is missing or damaged.
    """
    rows, repeated, sample = 0, 0, list[str]()
    for found in find_repeats(snapshot, scope):
        rows += found.records
        repeated += found.surplus
        sample += found.keys.slice(0, _SAMPLE - len(sample)).to_pylist()
    return VerifyReport(rows, rows, 0, 0, 0, tuple(sample), repeated=repeated)
