"""Findings of the doctor about the options of a job of Hudi that writes a table at the same time as rli."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rli.findings import Finding, Verdict
from rli.hudi.lock_settings import FILE_EXPIRY, FILE_FOLDER, NO_LOCK, PROVIDER, chosen_lock, shared_properties
from rli.hudi.timeline.instant import Instant, format_instant_time
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

_CHECK: Final = "job of Hudi"
_NEWEST_VERSION: Final = 9
_METADATA: Final = "hoodie.metadata.enable"
_OF_PARTITIONS: Final = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.record.index.enable",
}
"""Partition of the metadata table → option by which a job builds it."""

_WANTED_BY_DEFAULT: Final = frozenset({"column_stats"})
"""Partitions that Hudi 1.2 builds without an option."""

_RETAINED: Final = ("hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained")
"""The names of the option: Hudi 1.0 and later know both, and take the first if both are given; 0.15 knows the second alone."""

_POLICY: Final = ("hoodie.clean.policy", "hoodie.cleaner.policy")
_RETAINED_BY_DEFAULT: Final = 10
_BY_COMMITS: Final = "KEEP_LATEST_COMMITS"
_STRATEGY: Final = "hoodie.write.lock.conflict.resolution.strategy"
_BUCKETS: Final = "BucketIndexConcurrentFileWritesConflictResolutionStrategy"


def job_findings(table: TableDefinition, options: Mapping[str, str], snapshot: Snapshot | None) -> Iterator[Finding]:
    """A finding for each option of a job of Hudi that is unsafe beside rli, or a single one if all are safe.

    Args:
        table: the table.
        options: of the job.
        snapshot: the present state; None if it cannot be told.
    """
    found = [*_of_lock(table, options), *_of_versions(table, options), *_of_metadata(table, options)]
    if snapshot is not None:
        found += _of_cleans(snapshot, options)
    yield from found
    if not found:
        yield Finding(_CHECK, Verdict.OK, f"its options are safe beside rli: options={len(options)}")


def _of_lock(table: TableDefinition, options: Mapping[str, str]) -> Iterator[Finding]:
    raw = table.properties.raw
    if chosen_lock(raw) == NO_LOCK:
        yield Finding(
            _CHECK,
            Verdict.PROBLEM,
            "the table names no lock, so rli takes none: this job and rli must take turns",
            "run: rli lock TABLE --set filesystem",
        )
        return
    for key, wanted in shared_properties(raw).items():
        given = options.get(key, "").strip()
        # Providers and strategies are classes, and the rest of their values have no case that matters.
        if given.casefold() != wanted.strip().casefold():
            yield _unlike(Verdict.PROBLEM, key, given, wanted)
    for key in (FILE_FOLDER, FILE_EXPIRY):
        if key in options and key not in raw and options[key].rstrip("/") != f"{table.location}/.hoodie":
            detail = f"{key}={options[key]}, and rli does not know it: the table's properties do not have it"
            yield Finding(_CHECK, Verdict.PROBLEM, detail, "add it to .hoodie/hoodie.properties of the table")
    if options.get("hoodie.index.type", "").strip().upper() == "BUCKET" and not options.get(_STRATEGY, "").endswith(
        _BUCKETS
    ):
        yield _unlike(
            Verdict.PROBLEM,
            _STRATEGY,
            options.get(_STRATEGY, ""),
            f"{raw[PROVIDER].rpartition('.lock.')[0]}.{_BUCKETS}",
        )


def _of_versions(table: TableDefinition, options: Mapping[str, str]) -> Iterator[Finding]:
    version = table.properties.version
    upgrades, written = "hoodie.write.auto.upgrade", "hoodie.write.table.version"
    if version < _NEWEST_VERSION and not _is(options, upgrades, "false"):
        yield _unlike(Verdict.PROBLEM, upgrades, options.get(upgrades, ""), "false")
    if (given := options.get(written, "").strip()) != str(version) and (given or version < _NEWEST_VERSION):
        yield _unlike(Verdict.PROBLEM, written, given, str(version))


def _of_metadata(table: TableDefinition, options: Mapping[str, str]) -> Iterator[Finding]:
    kept = table.properties.metadata_partitions
    drops = "hoodie.metadata.auto.delete.partitions"
    if _is(options, _METADATA, "false"):
        if kept:
            yield _unlike(Verdict.PROBLEM, _METADATA, "false", "true")
        return
    if not kept:
        yield _unlike(Verdict.WARNING, _METADATA, options.get(_METADATA, ""), "false")
        return
    if not _is(options, drops, "false"):
        yield _unlike(Verdict.WARNING, drops, options.get(drops, ""), "false")
    for partition, key in _OF_PARTITIONS.items():
        given = options.get(key, "").strip().lower()
        is_wanted = given == "true" or (not given and partition in _WANTED_BY_DEFAULT)
        if is_wanted != (partition in kept):
            yield _unlike(Verdict.WARNING, key, given, str(partition in kept).lower())


def _of_cleans(snapshot: Snapshot, options: Mapping[str, str]) -> Iterator[Finding]:
    """Whether cleans of the job would remove at once what its longest write has replaced."""
    policy = (_first_of(_POLICY, options) or _BY_COMMITS).upper()
    if _is(options, "hoodie.clean.automatic", "false") or policy != _BY_COMMITS:
        return
    given = _first_of(_RETAINED, options)
    retained = int(given) if given.isdecimal() else _RETAINED_BY_DEFAULT
    for longest, commits in _commits_meanwhile(snapshot):
        if commits >= retained and not snapshot.change(longest).is_native:
            yield Finding(
                _CHECK,
                Verdict.WARNING,
                f"{_RETAINED[-1]}={given or f'(not set: {retained})'}, but {commits} later commits completed during the write "
                f"{longest.time}: after such a write, a clean of the job removes at once what the write has replaced",
                f"set {_RETAINED[-1]} above {commits}, and hoodie.keep.min.commits above it",
            )
            return


def _commits_meanwhile(snapshot: Snapshot) -> list[tuple[Instant, int]]:
    """For each completed write, how many writes began and completed while it was at work; the longest write first."""
    timeline = snapshot.timeline
    if timeline.layout.keeps_completion_times:
        ends = {write: write.completion_time for write in timeline.completed_writes if write.completion_time}
    else:
        changed = snapshot.table.storage.modification_times(timeline.layout.folder)
        ends = {
            write: format_instant_time(changed[write.file_name])
            for write in timeline.completed_writes
            if write.file_name in changed
        }
    counts = [
        (write, sum(other.time > write.time and its < end for other, its in ends.items()))
        for write, end in ends.items()
    ]
    return sorted(counts, key=lambda found: found[1], reverse=True)


def _first_of(names: Sequence[str], options: Mapping[str, str]) -> str:
    return next((options[name].strip() for name in names if name in options), "")


def _is(options: Mapping[str, str], key: str, value: str) -> bool:
    return options.get(key, "").strip().lower() == value


def _unlike(verdict: Verdict, key: str, given: str, wanted: str) -> Finding:
    return Finding(_CHECK, verdict, f"{key}={given or '(not set)'}", f"set {key}={wanted}")
