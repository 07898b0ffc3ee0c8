"""Which kind of index to choose: what the table needs comes first, then what an upsert costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from rli.advice.calibration import LMDB, MEMORY, Calibration
from rli.advice.model import CostModel, KindEstimate, grown
from rli.advice.statistics import BatchStatistics, Survey, TableStatistics
from rli.advice.table_type import type_for
from rli.errors import SettingsError
from rli.index.registry import index_kind, is_kind
from rli.index_urls import IndexUrl
from rli.model import Scope, TableType
from rli.services.new_partitions import FIRST_VERSION_OF_PARTITIONED_INDEX

_GROWTH: Final = 10
_ABOUT_THE_SAME: Final = 1.1
"""Of kinds whose costs differ by less, the one that needs less is chosen."""

_WORTH_A_CHANGE: Final = 1.25
"""The index of today stays where no other one is so many times cheaper."""

_METADATA: Final = "record-index"
_BUCKETS: Final = ("bucket", "consistent-bucket")
_LMDB_URL: Final = "lmdb:///path/to/index"
_SERVERS: Final = {"redis": "redis://host:6379/0", "hbase": "hbase://host:9090/?table=name"}


@dataclass(frozen=True, slots=True)
class Needs:
    """What the table is to do, beside the cost.

    Attributes:
        scope: where record keys are to be unique; None if nobody says.
        several_machines: whether several machines write it.
        stores: URLs of stores at hand.
    """

    scope: Scope | None = None
    several_machines: bool = False
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """Which kind of index suits a table, and why.

    Attributes:
        choice: URL of the kind, as ``index=`` takes it.
        scope: where record keys are to be unique.
        kinds: what each kind would cost, those that can be chosen first, the cheapest first.
        table, batch: what was read.
        reasons: why, in at most ten sentences.
        table_type: the recommended type of the table.
        reason_of_type: why, in a sentence or two.
    """

    choice: str
    scope: Scope
    kinds: tuple[KindEstimate, ...]
    table: TableStatistics
    batch: BatchStatistics
    reasons: tuple[str, ...]
    table_type: TableType
    reason_of_type: str


def advised(found: Survey, rates: Calibration, needs: Needs) -> Advice:
    """The kind to choose.

    Raises:
        SettingsError: no kind does what is needed.
    """
    scope, why_scope = _scope(found, needs)
    kinds = _ranked(found, rates, needs, scope)
    chosen = _cheapest(kinds, found.table.index)
    if chosen is None:
        raise SettingsError(
            f"no kind of index does what is needed: table={found.table.location} scope={scope} "
            f"several_machines={needs.several_machines}",
            remedy=f"name a store that all machines reach, such as --store {_SERVERS['redis']}",
        )
    later = _cheapest(_ranked(grown(found, _GROWTH), rates, needs, scope)) or chosen
    reasons = (*_facts(found), why_scope, *_why(found, needs, kinds, chosen, later))
    return Advice(chosen.url, scope, tuple(kinds), found.table, found.batch, reasons, *type_for(found))


def _ranked(found: Survey, rates: Calibration, needs: Needs, scope: Scope) -> list[KindEstimate]:
    """All kinds: those that can be chosen come first, the cheapest first."""
    kinds = [
        replace(kind, obstacles=tuple(_obstacles(kind, found, needs, scope)))
        for kind in _estimates(CostModel(found, rates), needs)
    ]
    return sorted(kinds, key=lambda kind: (bool(kind.obstacles), kind.upsert_seconds is None, kind.upsert_seconds or 0))


def _estimates(model: CostModel, needs: Needs) -> Iterator[KindEstimate]:
    """Each kind; of those that cost the same, the one that needs less comes first."""
    index = model.found.table.index or ""
    lmdb = IndexUrl.parse(index).store if index.startswith(f"{LMDB}:") else _LMDB_URL
    for scope in Scope:
        yield model.simple(scope)
        yield model.bloom(scope)
        yield model.metadata_record(scope)
        yield model.record(LMDB, _url_at(lmdb, scope, index), scope)
        for url in needs.stores:
            yield model.record(url, _url_at(url, scope, index), scope)
    for kind in _BUCKETS:
        yield model.bucket(kind, index if index.startswith(f"{kind}:") else None)
    yield model.record(MEMORY, _url_at(f"{MEMORY}:", Scope.GLOBAL, index), Scope.GLOBAL)
    for name, url in _SERVERS.items():
        if not any(store.startswith(name) for store in needs.stores):
            yield model.record(name, _url_at(url, Scope.GLOBAL, index), Scope.GLOBAL)


def _url_at(store: str, scope: Scope, index: str) -> str:
    """The URL of a record index in a store, which forgets keys as the index of today does."""
    if not index or is_kind(index):
        return IndexUrl(store, scope).full
    today = IndexUrl.parse(index)
    return index if (today.store, today.scope) == (store, scope) else IndexUrl(store, scope, ttl=today.ttl).full


def _cheapest(kinds: Sequence[KindEstimate], today: str | None = None) -> KindEstimate | None:
    """The kind to choose of those that can be; None if none can."""
    costs = [(kind.upsert_seconds, kind) for kind in kinds if not kind.obstacles]
    eligible = [(seconds, kind) for seconds, kind in costs if seconds is not None]
    if not eligible:
        return None
    least = min(seconds for seconds, _ in eligible)
    for seconds, kind in eligible:
        if kind.url == today and seconds <= least * _WORTH_A_CHANGE:
            return kind
    # Where costs are about the same, an index that keeps nothing has nothing to build, to repair or to lose. A number of
    # buckets is kept for ever, or costs splits.
    near = [
        (bool(kind.index_bytes != 0 or kind.kind in _BUCKETS), seconds, kind)
        for seconds, kind in eligible
        if seconds <= least * _ABOUT_THE_SAME
    ]
    return min(near, key=itemgetter(0, 1))[2]


# What is needed -----------------------------------------------------------------------------------------------------


def _scope(found: Survey, needs: Needs) -> tuple[Scope, str]:
    """Where keys are to be unique, and why."""
    table, commits = found.table, found.table.commits
    moved = found.batch.moved > 0 or (commits is not None and commits.moved > 0)
    if table.repeated and needs.scope is Scope.GLOBAL:
        raise SettingsError(
            "several partitions hold the same record keys, so they cannot be unique in the table: "
            f"table={table.location} share={table.repeated:.2%}",
            remedy="remove the repeated records, or ask for --scope partition",
        )
    if needs.scope is not None:
        return needs.scope, f"Record keys are to be unique in the {_place(needs.scope)}, as you say."
    if table.repeated:
        return Scope.PARTITION, (
            f"{table.repeated:.1%} of the record keys are in several partitions: only an index with partition scope can hold them."
        )
    if moved:
        return (
            Scope.GLOBAL,
            "Records move between partitions: only a global index moves them, others would keep both copies.",
        )
    if table.index is not None and index_kind(table.index).scope_of(table.index) is Scope.PARTITION:
        return Scope.PARTITION, "Record keys stay unique in their partition, as with the index of today."
    return Scope.GLOBAL, "Record keys are taken as unique in the table: give --scope partition if they are not."


def _place(scope: Scope) -> str:
    return "table" if scope is Scope.GLOBAL else "partition"


def _obstacles(kind: KindEstimate, found: Survey, needs: Needs, scope: Scope) -> Iterator[str]:
    table = found.table
    # Without partitions both scopes are the same.
    if kind.scope is not scope and table.partition_by:
        yield "unique in a partition only" if scope is Scope.GLOBAL else "a key may be in one partition only"
    name = kind.url.partition(":")[0]
    if name.endswith("bucket") and table.is_table and not (table.index or "").startswith(f"{name}:"):
        yield "the files of the table would have to be rewritten"
    if table.index is not None and IndexUrl.parse(table.index).ttl is not None and is_kind(kind.url):
        yield "never forgets a key, as the index of today does"
    if name == _METADATA and kind.scope is Scope.PARTITION and table.version < FIRST_VERSION_OF_PARTITIONED_INDEX:
        yield f"needs a table of version {FIRST_VERSION_OF_PARTITIONED_INDEX}"
    if name == MEMORY:
        yield "one process keeps it, and loses it"
    if name == LMDB and several_machines(found, needs):
        yield "on one machine, and several write"
    if name in _SERVERS and kind.tag_seconds is None:
        yield "no such store at hand: give --store URL"


def several_machines(found: Survey, needs: Needs) -> bool:
    """Whether several machines write the table, as the caller says or its commits tell."""
    commits = found.table.commits
    return needs.several_machines or (commits is not None and commits.machines > 1)


# Reasons ------------------------------------------------------------------------------------------------------------


def _facts(found: Survey) -> Iterator[str]:
    table, batch = found.table, found.batch
    what = "The table has" if table.is_table else "The files make a table of"
    yield (
        f"{what} {_counted(table.keys, 'key')} of {table.key_bytes:.0f} bytes in {_counted(table.files, 'file')} and "
        f"{_counted(table.partitions, 'partition')}."
    )
    followed = 0 if table.commits is None else table.commits.commits
    source = {
        "records": "The batch",
        "commits": f"No batch was given: like the last {_counted(followed, 'commit')}, the next one",
        "assumed": "No batch was given, and no commit shows one: a batch",
    }[batch.origin]
    verb = "is assumed to bring" if batch.origin == "assumed" else "brings"
    yield (
        f"{source} {verb} {_counted(round(batch.keys), 'key')}, {batch.known:.1%} of them known, {batch.moved:.1%} in another partition; "
        f"the known ones are in {_counted(round(batch.hit.files), 'file')}."
    )
    share = table.files_per_key / max(1, table.files)
    pruned = "so ranges leave most files out" if share < _NARROW else "so ranges leave few files out"
    yield f"On average, a key is in the key ranges of {table.files_per_key:,.1f} of {_counted(table.files, 'file')}, {pruned}."


_NARROW: Final = 0.3


def _why(
    found: Survey, needs: Needs, kinds: Sequence[KindEstimate], chosen: KindEstimate, later: KindEstimate
) -> Iterator[str]:
    commits = found.table.commits
    if several_machines(found, needs):
        seen = "you say so" if needs.several_machines else f"the commits show {commits and commits.machines}"
        yield f"Several machines write ({seen}): an index in a store must be one that all of them reach."
    yield (
        f"{chosen.url} is chosen: an upsert of the batch takes about {short_seconds(chosen.upsert_seconds)}: {short_seconds(chosen.tag_seconds)} to "
        f"find keys, {short_seconds(chosen.write_seconds)} to write files, {short_seconds(chosen.maintain_seconds)} for the index."
    )
    yield from _why_not_the_cheapest(kinds, chosen, found.table.index)
    if chosen.index_bytes:
        yield f"It keeps about {chosen.index_bytes / 2**20:,.1f} MiB of {chosen.kept_in}."
    others = [kind for kind in kinds if not kind.obstacles and kind.upsert_seconds is not None and kind is not chosen]
    if others:
        yield f"Next: {others[0].url} with about {short_seconds(others[0].upsert_seconds)}."
    if later.kind != chosen.kind:
        yield f"With {_GROWTH} times as many keys, {later.url} would be cheaper: advise again then."
    if found.table.is_table and found.table.index == chosen.url:
        yield "It is the index of today: nothing is to be done."
    elif found.table.index is not None:
        yield f"Change to it: rli index migrate TABLE --to '{chosen.url}'"
    elif found.table.is_table:
        yield f"Build it: rli index bootstrap TABLE --index '{chosen.url}'"


def _why_not_the_cheapest(kinds: Sequence[KindEstimate], chosen: KindEstimate, today: str | None) -> Iterator[str]:
    costs = {kind.url: kind.upsert_seconds for kind in kinds if not kind.obstacles and kind.upsert_seconds is not None}
    cheapest = min(costs, key=costs.__getitem__)
    if cheapest == chosen.url or costs[cheapest] == costs[chosen.url]:
        return
    cheaper = f"{cheapest} is cheaper with about {short_seconds(costs[cheapest])}"
    if chosen.url == today:
        yield f"{cheaper}, but the index of today stays unless it costs {_WORTH_A_CHANGE - 1:.0%} more than another one."
    else:
        yield f"{cheaper}, but of kinds that differ by less than {_ABOUT_THE_SAME - 1:.0%} the one that needs less is chosen."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def short_seconds(seconds: float | None) -> str:
    """An estimated duration as people read it; empty for None."""
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1_000 * seconds:.1f} ms"
