"""The page of a report: sections of a table's facts, in the order in which an operator asks for them."""

from __future__ import annotations

from typing import Final

from rli.report.buckets import bucketed
from rli.report.charts import Chart, Series
from rli.report.commits import commits_section, time_section
from rli.report.elements import (
    escaped,
    facts,
    folded,
    paragraph,
    section,
    short_bytes,
    short_count,
    table,
    tiles,
)
from rli.report.facts import TableReport, TableState
from rli.report.style import style_sheet
from rli.sizes import human_bytes

_LISTED: Final = 20
_POINTS: Final = 240
_SIZES: Final = tuple(2**power for power in range(16, 31, 2))
"""Upper ends of the classes of file sizes: 64 KiB to 1 GiB."""
_MANY_VERSIONS: Final = 8

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser is forbidden to fetch anything."""


def report_page(report: TableReport) -> str:
    """The page as HTML: a single document without scripts, which fetches nothing."""
    info, state = report.info, report.state
    title = f"{info.name}: report of {report.made:%Y-%m-%d %H:%M:%S} UTC"
    body = "".join(
        (
            _header(report),
            _tiles(report),
            _health(report),
            _growth(state),
            commits_section(state),
            time_section(state),
            _files(report),
            _slices(state),
            _index(report),
            _metadata_table(state),
            _kept(state),
            _missing(state),
        )
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{style_sheet()}</style></head><body><main>{body}</main></body></html>\n"
    )


def _header(report: TableReport) -> str:
    made = f"Made {report.made:%Y-%m-%d %H:%M:%S} UTC. All times are UTC."
    return f"<header><h1>{escaped(report.info.name)}</h1>{paragraph(report.info.location)}{paragraph(made)}</header>"


def _tiles(report: TableReport) -> str:
    info, state = report.info, report.state
    lag = None if info.index is None else info.index.unseen_commits
    return tiles(
        {
            "Records": (state.records, "not counted" if state.records is None else "in the table"),
            "Size": (human_bytes(info.bytes), f"{human_bytes(state.stored_bytes)} with old versions"),
            "Files": (info.files, f"in {info.partitions:,} partitions"),
            "Commits": (info.commits, "on the active timeline"),
            "Index lag": (lag, "commits" if lag is not None else "not known"),
            "Pending": (info.pending, "instants not completed"),
        }
    )


def _health(report: TableReport) -> str:
    problems, index = report.info.problems, report.info.index
    lag = 0 if index is None else index.unseen_commits or 0
    behind = f"The index is {lag:,} commits behind the table: the next write or look-up applies them." if lag else None
    notes = "".join(paragraph(note) for note in (behind, "rli doctor looks deeper.") if note is not None)
    if not problems:
        return section("Health", '<p class="good">No problem found.</p>', notes)
    listed = "".join(f"<li>{escaped(problem)}</li>" for problem in problems)
    return section("Health", f'<p class="bad">Problems: {len(problems)}</p><ul>{listed}</ul>', notes)


def _growth(state: TableState) -> str:
    groups = bucketed(state.commits, _POINTS)
    if not groups:
        return section("Growth", paragraph("The active timeline has no commit."))
    labels = [group.label for group in groups]
    records = [group.last(lambda commit: commit.records) for group in groups]
    sizes = [group.last(lambda commit: commit.bytes) for group in groups]
    notes = [] if state.uncounted is None else [paragraph(f"Records are not counted: {state.uncounted}")]
    if state.commits[0].bytes is None or (state.uncounted is None and state.commits[0].records is None):
        notes.append(
            paragraph("Where a line is missing, files were cleaned and their commits archived: the size is not known.")
        )
    return section(
        "Growth",
        Chart("Records in the table", "commit (UTC)", labels, [Series("records", "c1", records)], short_count).line(),
        Chart("Bytes of live files", "commit (UTC)", labels, [Series("bytes", "c2", sizes)], short_bytes, 1024).line(),
        *notes,
    )


def _files(report: TableReport) -> str:
    slices, settings = report.state.slices, report.info.settings
    counts = [0] * (len(_SIZES) + 1)
    partitions: dict[str, list[int]] = {}
    for one in slices:
        counts[sum(one.size > end for end in _SIZES)] += 1
        of_partition = partitions.setdefault(one.group.partition_path, [0, 0])
        of_partition[0] += 1
        of_partition[1] += one.size
    labels = [f"≤ {_whole(end)}" for end in _SIZES] + [f"> {_whole(_SIZES[-1])}"]
    largest = sorted(partitions.items(), key=lambda item: item[1][1], reverse=True)[:_LISTED]
    aim = None if settings is None else f"Writers aim at files of {human_bytes(settings.target_file_size)}."
    return section(
        "Files",
        Chart("Live files, by size", "size", labels, [Series("files", "c1", counts)], short_count).bars(),
        "" if aim is None else paragraph(aim),
        folded(
            "The largest partitions",
            table(
                "Partitions, the largest first",
                ["partition path", "files", "size"],
                ([path or "(none)", files, human_bytes(size)] for path, (files, size) in largest),
            ),
        ),
    )


def _whole(size: int) -> str:
    return (human_bytes(size) or "").replace(".0", "")


def _slices(state: TableState) -> str:
    depths = [*range(1, _MANY_VERSIONS), _MANY_VERSIONS]
    groups = [sum(n for depth, n in state.versions.items() if min(depth, _MANY_VERSIONS) == one) for one in depths]
    labels = [*map(str, depths[:-1]), f"{_MANY_VERSIONS} or more"]
    return section(
        "Versions",
        Chart(
            "File groups, by stored versions", "versions", labels, [Series("file groups", "c3", groups)], short_count
        ).bars(),
        paragraph("Old versions serve readers of earlier commits, until a clean removes them."),
    )


def _index(report: TableReport) -> str:
    index = report.info.index
    if index is None:
        return section("Index", paragraph("The table has no index, or the index cannot be opened."))
    lag = index.unseen_commits
    # An index without a store keeps no entries: it finds keys in the table's files.
    kept = {
        "entries": "not counted" if index.entries is None else index.entries,
        "size": human_bytes(index.bytes) or "not known",
        "shards": index.shards,
    }
    return section(
        "Index",
        facts(
            {
                "URL": index.url,
                "scope": index.scope,
                **({} if index.shards is None else kept),
                "lag": "not known" if lag is None else f"{lag:,} commits",
                "lease": report.info.lease or "free",
            }
        ),
    )


def _metadata_table(state: TableState) -> str:
    kept = ", ".join(state.metadata_partitions)
    return section(
        "Metadata table",
        paragraph(f"Partitions: {kept}." if kept else "None is kept: readers list the folders of the table."),
    )


def _kept(state: TableState) -> str:
    saved, pending = state.savepoints, state.pending
    return section(
        "Savepoints and pending instants",
        paragraph(f"Savepoints: {len(saved):,}. Files of their commits are not cleaned."),
        table("The last savepoints", ["commit"], ([time] for time in reversed(saved[-_LISTED:]))) if saved else "",
        paragraph(f"Pending instants: {len(pending):,}. The next write clears up after dead writers."),
        table(
            "The oldest pending instants",
            ["instant", "action", "state"],
            ([entry.time, entry.action, entry.state] for entry in pending[:_LISTED]),
        )
        if pending
        else "",
    )


def _missing(state: TableState) -> str:
    first = state.commits[0].entry.time if state.commits else None
    archived = f"Commits before {first} were archived, and are not shown." if first and state.has_archive else None
    told = (
        archived,
        "A commit tells its phases up to the lease; publication and the work of the index come after the commit is formed.",
        "Writes that failed leave no commit: their conflicts and seconds are in logs and metrics only.",
        "Commits of other engines and of earlier versions of rli tell neither attempts nor phases.",
    )
    return section("What is not recorded", "".join(paragraph(one) for one in told if one is not None))
