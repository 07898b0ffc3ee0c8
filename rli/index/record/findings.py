"""What a look at a record index and its store finds: is it there, does it answer, is it sound?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rli.errors import CorruptIndexError, RliError
from rli.findings import Finding, Verdict, problem
from rli.index.record.opening import open_index
from rli.index.record.stored_index import StoredIndex, stored_index
from rli.index_urls import IndexUrl
from rli.model import KeyMode
from rli.sizes import entry_size, human_bytes
from rli.store.health import store_findings
from rli.store.purging import SupportsPurge
from rli.store.registry import open_store
from rli.urls import without_password

_FEW_TOMBSTONES: Final = 100_000


def index_findings(url: str) -> Iterator[Finding]:
    """Findings about the index at a store URL, whatever its state."""
    try:
        store = open_store(IndexUrl.parse(url).store)
    except RliError as error:
        yield problem("store", error)
        return
    with store:
        yield Finding("store", Verdict.OK, f"opened: url={without_password(url)}")
        try:
            yield from store_findings(store)
        except RliError as error:
            yield problem("store", error)
            return
    try:
        with open_index(url) as index:
            yield from _look_inside(stored_index(index))
    except RliError as error:
        yield problem("index", error)


def _look_inside(index: StoredIndex) -> Iterator[Finding]:
    settings = index.settings
    owner = f"table_id={settings.table_id}" if settings.table_id else "used on its own"
    yield Finding(
        "settings", Verdict.OK, f"shards={settings.shard_count} keys={settings.key_mode} hash={settings.hash} {owner}"
    )
    if settings.key_mode is KeyMode.DIGEST and settings.digest_key is None:
        yield Finding(
            "digests",
            Verdict.WARNING,
            "an earlier version created the index: chosen record keys can share a digest",
            "if you do not trust the source of keys, run: rli index bootstrap TABLE --key-mode digest",
        )
    try:
        stats = index.stats()
    except CorruptIndexError as error:
        yield problem("commit log", error)
        return
    yield Finding(
        "commit log", Verdict.OK, f"commits={len(index.log.refresh().records_after(0))} sequence={stats.last_sequence}"
    )
    size = human_bytes(stats.bytes) or "unknown"
    each = "" if stats.bytes_per_entry is None else f" bytes_per_entry={entry_size(stats.bytes_per_entry)}"
    yield Finding("entries", Verdict.OK, f"entries={stats.entries:,} tombstones={stats.tombstones:,} size={size}{each}")
    if stats.tombstones > max(stats.entries, _FEW_TOMBSTONES) and not isinstance(index.store, SupportsPurge):
        yield Finding(
            "tombstones",
            Verdict.WARNING,
            f"tombstones take more space than keys: tombstones={stats.tombstones:,} entries={stats.entries:,}",
            "rebuild the index while no writer is at work: rli index bootstrap TABLE",
        )
    if stats.applied_sequence is None:
        yield Finding(
            "bootstrap",
            Verdict.PROBLEM,
            f"the index was never bootstrapped, or the bootstrap was interrupted: url={index.url}",
            "run: rli index bootstrap TABLE",
        )
    elif stats.applied_sequence < (stats.last_sequence or 0):
        yield Finding(
            "applied",
            Verdict.WARNING,
            f"a commit is only partly in the index: applied={stats.applied_sequence} last={stats.last_sequence}",
            "the next write completes it, or run: rli index sync TABLE",
        )
