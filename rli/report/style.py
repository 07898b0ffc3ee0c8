"""The style sheet of a report: two themes by the reader's preference, with contrasts for text and for marks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIGHT: Final[Mapping[str, str]] = {
    "page": "#f6f8fa",
    "card": "#ffffff",
    "text": "#1b1f24",
    "muted": "#57606a",
    "line": "#d8dee4",
    "bad": "#b62324",
    "good": "#116329",
    "c1": "#1f6feb",
    "c2": "#0f7b6c",
    "c3": "#8250df",
    "c4": "#b35900",
    "c5": "#cf222e",
    "c6": "#6e7781",
}
"""Colours by role; ``c1`` to ``c6`` are those of series."""

DARK: Final[Mapping[str, str]] = {
    "page": "#0d1117",
    "card": "#161b22",
    "text": "#e6edf3",
    "muted": "#9da7b3",
    "line": "#30363d",
    "bad": "#ff8a80",
    "good": "#56d364",
    "c1": "#58a6ff",
    "c2": "#3fb8a4",
    "c3": "#bc8cff",
    "c4": "#f0883e",
    "c5": "#ff7b72",
    "c6": "#8b949e",
}
"""The same roles on a dark screen."""

_RULES: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:68rem;margin:0 auto;padding:1.5rem}
h1{margin:0;font-size:1.75rem;overflow-wrap:anywhere}
h2{margin:0 0 .5rem;font-size:1.2rem}
p{max-width:48rem;margin:.4rem 0}
header p,small,figcaption,caption,summary,dt{color:var(--muted)}
header p{overflow-wrap:anywhere}
section{margin-top:1.25rem;padding:1.25rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;margin:.5rem 0}
dd{margin:0;overflow-wrap:anywhere}
.tiles{grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:1rem;margin-top:1.25rem}
.tiles div{padding:1rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
.tiles dd{font-size:1.4rem;font-weight:600}
.tiles small{display:block;font-size:.85rem;font-weight:400}
.good{color:var(--good);font-weight:600}
.bad{color:var(--bad);font-weight:600}
figure{margin:1rem 0}
figcaption{margin-bottom:.25rem}
.scroll{overflow-x:auto}
svg{display:block;width:100%;min-width:36rem;height:auto}
svg text{fill:var(--muted);font-size:12px}
.grid{stroke:var(--line)}
.area{opacity:.15}
polyline.stroke{fill:none;stroke-width:2}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.25rem 0;padding:0;list-style:none}
.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.4rem;border-radius:2px}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.25rem 0}
th,td{padding:.2rem .9rem .2rem 0;text-align:left;white-space:nowrap;border-bottom:1px solid var(--line)}
td.number{text-align:right}
summary{cursor:pointer}
@media print{section{break-inside:avoid}}
"""


def style_sheet() -> str:
    """The rules of the page."""
    series = [role for role in LIGHT if role[1:].isdecimal()]
    colors = "".join(
        f".{one}{{fill:var(--{one})}}.{one}.stroke{{stroke:var(--{one})}}i.{one}{{background:var(--{one})}}"
        for one in series
    )
    dark = f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{color-scheme:light dark;{_variables(LIGHT)}}}{dark}{colors}{_RULES}".replace("\n", "")


def _variables(theme: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{color};" for role, color in theme.items())
