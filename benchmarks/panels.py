"""Figures of several operations beside several peers: a row for each peer, a panel for each operation, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from benchmarks.measuring import Outcome

_LABELS, _PANEL, _BAR = 300, 152, 88
_CHARACTER = 7
"""Width of most, in pixels."""

_TOP, _HEADING, _ROW, _BOTTOM = 58, 26, 24, 14
_FASTER, _SLOWER, _ONE, _QUIET = "#5b7da8", "#c98a2b", "#999999", "#666666"


def write_panels(outcomes: Sequence[Outcome], path: Path, title: str, legend: str) -> None:
    """Draw a bar for each figure: the operations side by side, the peers below each other.

    Each panel has a scale of its own, with a dashed line at 1. Bars below 1 have another colour.

    Args:
        outcomes: named ``operation: …`` or ``workload, operation: …``, with the peer as their baseline.
        path: of the chart.
        title: whose figures they are.
        legend: how to read a bar.
    """
    found = {_cell(outcome): outcome for outcome in outcomes}
    operations = list(dict.fromkeys(operation for operation, _ in found))
    peers = list(dict.fromkeys(peer for _, peer in found))
    labels = max(_LABELS, round(_CHARACTER * max(map(len, peers), default=0)) + 24)
    width, height = labels + _PANEL * len(operations) + 16, _TOP + _HEADING + _ROW * len(peers) + _BOTTOM
    parts = [*_labels(peers, width)]
    for number, operation in enumerate(operations):
        panel = [found.get((operation, peer)) for peer in peers]
        parts.extend(_panel(operation, panel, labels + number * _PANEL))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="16" y="24" font-size="16" font-weight="bold">{escape(title)}</text>'
        f'<text x="16" y="44" fill="{_QUIET}">{escape(legend)}</text>{"".join(parts)}</svg>\n'
    )


def _cell(outcome: Outcome) -> tuple[str, str]:
    """The panel and the row of a figure: "real stream, load" is a load, in a row of its own."""
    workload, comma, operation = outcome.name.partition(":")[0].rpartition(", ")
    return operation, f"{outcome.baseline}{comma}{workload}"


def _labels(peers: Sequence[str], width: int) -> Iterator[str]:
    yield f'<text x="16" y="{_TOP + 16}" fill="{_QUIET}">rli beside</text>'
    for row, peer in enumerate(peers):
        top = _TOP + _HEADING + row * _ROW
        if row % 2 == 0:
            # Bands lead the eye from a peer to its bars.
            yield f'<rect x="8" y="{top}" width="{width - 16}" height="{_ROW}" fill="#f4f6f8"/>'
        yield f'<text x="16" y="{top + 16}">{escape(peer)}</text>'


def _panel(operation: str, outcomes: Sequence[Outcome | None], left: int) -> Iterator[str]:
    ratios = [outcome.ratio for outcome in outcomes if outcome is not None]
    scale = _BAR / max([1.0, *ratios])
    one = left + scale
    yield f'<text x="{left}" y="{_TOP + 16}" font-weight="bold">{escape(operation)}</text>'
    for row, outcome in enumerate(outcomes):
        top = _TOP + _HEADING + row * _ROW
        if outcome is None:
            yield f'<text x="{one + 5:.1f}" y="{top + 16}" font-size="12" fill="{_QUIET}">none</text>'
            continue
        length = max(1.0, outcome.ratio * scale)
        colour = _FASTER if outcome.ratio >= 1 else _SLOWER
        yield f'<rect x="{left}" y="{top + 5}" width="{length:.1f}" height="14" rx="2" fill="{colour}"/>'
        yield f'<text x="{max(left + length, one) + 5:.1f}" y="{top + 16}" font-size="12">{escape(outcome.figure)}</text>'
    first = _TOP + _HEADING
    last = first + _ROW * len(outcomes)
    yield f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{first}" y2="{last}" stroke="{_ONE}" stroke-dasharray="3 2"/>'
