"""A real change stream as a history of commits: nearly four years of flight routes (benchmarks/data)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import rli
from benchmarks.measuring import Outcome, Unit, seconds
from benchmarks.rekeyed import rekeyed
from benchmarks.routes import Commit, route_commits

_DAYS_PER_COMMIT: Final = 7
_LIVE_AT_END: Final = 618_583
"""As the source has it."""
_KEPT: Final = 5
_CLEANED_EVERY: Final = 10
_COMMITS_REKEYED: Final = 12


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Replay the stream, in plain Python and with an index in LMDB; then its beginning with synthetic keys."""
    first, *others = islice(route_commits(_DAYS_PER_COMMIT), 8 if quick else None)
    commits = [Commit(first.routes.slice(0, 20_000), first.gone) if quick else first, *others]
    return [*_whole_history(folder, commits, is_whole=not quick), *_synthetic_keys(folder, commits[:_COMMITS_REKEYED])]


def _whole_history(folder: Path, commits: Sequence[Commit], *, is_whole: bool) -> list[Outcome]:
    """The stream beside rewriting the whole table each time; the end state is compared with what the source says."""
    ours: list[float] = []
    rewriting: list[float] = []
    naive = _Rewritten(folder / "naive.parquet")
    with _new_table(folder, "routes") as table:
        for number, commit in enumerate(commits, start=1):
            ours.append(seconds(lambda: _apply(table, commit)))  # noqa: B023  (called at once)
            if number % _CLEANED_EVERY == 0:
                ours[-1] += seconds(lambda: table.clean(_KEPT))
            rewriting.append(seconds(lambda: naive.apply(commit)))  # noqa: B023
        live = table.read(columns=["callsign"]).num_rows
        if live != naive.rows or (is_whole and live != _LIVE_AT_END) or not table.verify_index().agrees:
            raise RuntimeError(f"the replayed table is wrong: rows={live} expected={naive.rows}")
        entries = table.index.stats().bytes_per_entry or 0
    quarter = max(1, len(commits) // 4)
    changes = [commit.routes.num_rows + len(commit.gone) for commit in commits]
    cost = [taken / change for taken, change in zip(ours, changes, strict=True)]
    about = (
        f"{sum(changes):,} changes in {len(commits)} commits of {_DAYS_PER_COMMIT} days each, {live:,} routes in the end; "
        f"clean every {_CLEANED_EVERY} commits"
    )
    return [
        Outcome(
            "real stream: a commit",
            "rewriting the whole table with pyarrow",
            statistics.median(theirs / own for own, theirs in zip(ours[1:], rewriting[1:], strict=True)),
            None,
            "higher",
            f"{about}; times as fast, the median of the commits after the first",
        ),
        Outcome(
            "real stream: cost of a change in the last quarter",
            "the first quarter",
            statistics.median(cost[-quarter:]) / statistics.median(cost[1 : quarter + 1]),
            None,
            "lower",
            about,
        ),
        Outcome("real stream: LMDB bytes an entry", "1 entry", entries, 40, "lower", about, Unit.BYTES),
    ]


def _synthetic_keys(folder: Path, commits: Sequence[Commit]) -> list[Outcome]:
    """The same history with synthetic keys, commit by commit beside the real ones."""
    histories = {"its own": commits, **rekeyed(commits)}
    with ExitStack() as opened:
        tables = {kind: opened.enter_context(_new_table(folder, kind.replace(" ", "-"))) for kind in histories}
        taken: dict[str, list[float]] = {kind: [] for kind in histories}
        for kinds in zip(*histories.values(), strict=True):
            for kind, commit in zip(histories, kinds, strict=True):
                taken[kind].append(seconds(lambda: _apply(tables[kind], commit)))  # noqa: B023
        wrong = [kind for kind, table in tables.items() if not table.verify_index().agrees]
    if wrong:
        raise RuntimeError(f"replayed tables are wrong: keys={wrong}")
    own = taken.pop("its own")
    return [
        Outcome(
            "real stream: a commit, other keys",
            f"its own keys; here {kind}",
            statistics.median(theirs / real for theirs, real in zip(synthetic[1:], own[1:], strict=True)),
            None,
            "lower",
            f"the first {len(commits)} commits, of which skewed keys make updates and deletes only; time over time, the "
            "median of the commits after the first",
        )
        for kind, synthetic in taken.items()
    ]


def _new_table(folder: Path, name: str) -> rli.Table:
    return rli.create_table(
        folder / name,
        record_key="callsign",
        partition_by="region",
        ordering="batch",
        index=f"lmdb://{folder / name}-index",
    )


class _Rewritten:
    """A table in one Parquet file that every commit rewrites: the way without an index."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def rows(self) -> int:
        return pq.read_metadata(self._path).num_rows

    def apply(self, commit: Commit) -> None:
        parts = [commit.routes]
        if self._path.exists():
            before = pq.read_table(self._path)
            changed = pa.concat_arrays([*commit.routes["callsign"].chunks, commit.gone])
            parts.append(before.filter(pc.invert(pc.is_in(before["callsign"], value_set=changed))))
        pq.write_table(pa.concat_tables(parts), self._path, compression="zstd")


def _apply(table: rli.Table, commit: Commit) -> None:
    table.upsert(commit.routes)
    if len(commit.gone):
        table.delete(commit.gone)
