"""The real change stream of benchmarks/data, as commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_FILE: Final = Path(__file__).parent / "data" / "routes.parquet"


@dataclass(frozen=True, slots=True)
class Commit:
    """What some days changed.

    Attributes:
        routes: those that are there at the end of the days: ``callsign`` (the key), ``region`` (the partition), ``batch``
            (the day), ``airports``.
        gone: callsigns that are not.
    """

    routes: pa.Table
    gone: pa.Array


def route_commits(days: int) -> Iterator[Commit]:
    """The first state, then a commit for each so many days: of several changes of a callsign the last one counts."""
    stream = pq.read_table(_FILE)
    numbers = pc.divide(pc.add(stream["batch"], days - 1), days)
    for number in range(pc.max(numbers).as_py() + 1):
        changes = stream.filter(pc.equal(numbers, number))
        last = changes.group_by("callsign").aggregate([("batch", "max")])
        newest = changes.join(last.rename_columns(["callsign", "batch"]), keys=["callsign", "batch"], join_type="inner")
        routes = newest.filter(pc.invert(newest["deleted"])).drop_columns("deleted")
        region = pc.utf8_slice_codeunits(routes["airports"], 0, 1)
        yield Commit(
            routes.append_column("region", region).combine_chunks(),
            newest.filter(newest["deleted"])["callsign"].combine_chunks(),
        )
