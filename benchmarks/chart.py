"""The chart of the benchmarks, as SVG: how far each figure is from its goal."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks.measuring import Outcome

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 860, 44, 330, 120, 56
_REACHED, _MISSED = "#2a7f62", "#b3432b"


def write_chart(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw a bar for each figure; the line marks its goal, and a bar is green that is on the right side of it."""
    height = _TOP + _ROW * len(outcomes) + 16
    rows = "".join(_row(outcome, _TOP + _ROW * number) for number, outcome in enumerate(outcomes))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="16" y="24" font-size="16" font-weight="bold">Measured against its baseline, in one run</text>'
        f'<text x="16" y="42" fill="#666666">the dark line is the goal; green: reached</text>{rows}</svg>\n'
    )


def _row(outcome: Outcome, top: int) -> str:
    scale = (_WIDTH - _LEFT - _RIGHT) / (max(outcome.ratio, outcome.goal) * 1.05)
    goal = _LEFT + outcome.goal * scale
    sign = "≥" if outcome.better == "higher" else "≤"
    return (
        f'<text x="16" y="{top + 14}">{escape(outcome.name)}</text>'
        f'<text x="16" y="{top + 29}" fill="#666666" font-size="11">against {escape(outcome.baseline)}</text>'
        f'<rect x="{_LEFT}" y="{top + 4}" width="{outcome.ratio * scale:.1f}" height="22" rx="2" '
        f'fill="{_REACHED if outcome.reached else _MISSED}"/>'
        f'<line x1="{goal:.1f}" x2="{goal:.1f}" y1="{top}" y2="{top + 30}" stroke="#222222" stroke-width="2"/>'
        f'<text x="{_WIDTH - _RIGHT + 8}" y="{top + 20}">{outcome.ratio:.2f} ({sign} {outcome.goal:g})</text>'
    )
