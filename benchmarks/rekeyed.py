"""The change stream with synthetic keys in place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.keys import sequential_keys, skewed, uuid_keys
from benchmarks.routes import Commit


def rekeyed(commits: Sequence[Commit]) -> dict[str, list[Commit]]:
    """The commits with other keys, by the kind of these.

    UUIDs and integers stand for the callsigns in the order in which they first appear. Where the keys are skewed,
    commits after the first change only records of the first, few of them very often.
    """
    callsigns = pa.concat_arrays([keys for commit in commits for keys in (_callsigns(commit), commit.gone)])
    encoded = callsigns.dictionary_encode()
    uuids = uuid_keys(len(encoded.dictionary), seed=50)
    return {
        "UUIDs": list(_with_keys(commits, uuids.take(encoded.indices))),
        "integers": list(_with_keys(commits, sequential_keys(len(uuids)).take(encoded.indices))),
        "skewed UUIDs": list(_skewed(commits, uuids)),
    }


def _with_keys(commits: Sequence[Commit], keys: pa.Array) -> Iterator[Commit]:
    """Commits with these keys: of the routes and the gone of the first one, of the second, and so on."""
    start = 0
    for commit in commits:
        stop = start + commit.routes.num_rows
        routes = _replace(commit.routes, "callsign", keys.slice(start, commit.routes.num_rows))
        yield Commit(routes, keys.slice(stop, len(commit.gone)))
        start = stop + len(commit.gone)


def _skewed(commits: Sequence[Commit], keys: pa.Array) -> Iterator[Commit]:
    first = _replace(commits[0].routes, "callsign", keys.slice(0, commits[0].routes.num_rows))
    yield Commit(first, commits[0].gone.slice(0, 0))
    rows = pa.array(np.arange(first.num_rows))
    for number, commit in enumerate(commits[1:], start=1):
        # A record stays in the region that it was in.
        changed = first.take(skewed(rows, commit.routes.num_rows, seed=50 + number))
        routes = _replace(commit.routes, "region", changed["region"])
        gone = first["callsign"].take(skewed(rows, len(commit.gone), seed=1_050 + number))
        yield Commit(_replace(routes, "callsign", changed["callsign"]), gone.combine_chunks())


def _callsigns(commit: Commit) -> pa.Array:
    return commit.routes["callsign"].combine_chunks()


def _replace(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)
