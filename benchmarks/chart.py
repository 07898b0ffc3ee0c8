"""Charts of the benchmarks, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from benchmarks.measuring import Outcome, Unit

_WIDTH, _LEFT, _RIGHT, _TOP = 860, 330, 140, 56
_ROW, _ROW_OF_GROUP, _HEADING, _GAP = 44, 28, 30, 14
_COLOURS: Final = {True: "#2a7f62", False: "#b3432b", None: "#5b7da8"}
"""Of a figure that reached its goal, missed it, or has none."""


_LEGEND: Final = "measured in one run; a dark line is a goal, green: reached; a dashed line is 1: no difference"


def write_chart(outcomes: Sequence[Outcome], path: Path, title: str, legend: str = _LEGEND) -> None:
    """Draw a bar for each figure.

    Figures of one name are drawn to one scale, below a heading. A line marks a goal; a bar is green that is on the
    right side of it, red on the wrong one, and blue where there is none.
    """
    parts: list[str] = []
    top = _TOP
    for name, group in groupby(outcomes, key=attrgetter("name")):
        rows = list(group)
        scale = (_WIDTH - _LEFT - _RIGHT) / (max(map(_greatest, rows)) * 1.05)
        is_group = len(rows) > 1
        if is_group:
            parts.append(f'<text x="16" y="{top + 20}" font-weight="bold">{escape(name)}</text>')
            top += _HEADING
        for row in rows:
            label = (row.baseline, "") if is_group else (name, f"against {row.baseline}")
            parts.extend(_row(row, label, top, scale))
            top += _ROW_OF_GROUP if is_group else _ROW
        if is_group:
            top += _GAP
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top + 16}" '
        f'viewBox="0 0 {_WIDTH} {top + 16}" font-family="sans-serif" font-size="13">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="16" y="24" font-size="16" font-weight="bold">{escape(title)}</text>'
        f'<text x="16" y="42" fill="#666666">{escape(legend)}</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _greatest(outcome: Outcome) -> float:
    """The greatest number that its row shows: the figure, the goal or "no difference"."""
    return max(outcome.ratio, outcome.goal or 0.0, 1.0 if outcome.unit is Unit.TIMES else 0.0)


def _row(outcome: Outcome, label: tuple[str, str], top: int, scale: float) -> Iterator[str]:
    name, baseline = label
    colour = _COLOURS[None if outcome.goal is None else outcome.reached]
    yield f'<text x="16" y="{top + (14 if baseline else 20)}">{escape(name)}</text>'
    yield f'<text x="16" y="{top + 29}" fill="#666666" font-size="11">{escape(baseline)}</text>'
    yield f'<rect x="{_LEFT}" y="{top + 4}" width="{outcome.ratio * scale:.1f}" height="22" rx="2" fill="{colour}"/>'
    if outcome.unit is Unit.TIMES:
        one = _LEFT + scale
        yield f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{top}" y2="{top + 28}" stroke="#999999" stroke-dasharray="3 2"/>'
    figure = outcome.figure
    if outcome.goal is not None:
        goal = _LEFT + outcome.goal * scale
        yield f'<line x1="{goal:.1f}" x2="{goal:.1f}" y1="{top}" y2="{top + 30}" stroke="#222222" stroke-width="2"/>'
        figure += f" ({outcome.target})"
    yield f'<text x="{_WIDTH - _RIGHT + 8}" y="{top + 20}">{figure}</text>'
