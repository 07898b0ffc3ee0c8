"""Parts of a page as strings of HTML: every value passes ``escaped``."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rli.sizes import human_bytes

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_THOUSAND: Final = 1000
_UNITS: Final = ("", "k", "M", "G", "T")
_MINUTE: Final = 60
_SMALL: Final = 10


def escaped(value: object) -> str:
    """A value as text of a page; a dash for None. Control characters are replaced."""
    text = "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return html.escape(_CONTROLS.sub("\ufffd", text))


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers are aligned to the right.

    Args:
        caption: says what the rows are.
        columns: names with units.
        rows: values in the order of the columns.
    """
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" aria-label="{escaped(caption)}" tabindex="0"><table>'
        f"<caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    kind = ' class="number"' if isinstance(value, int | float) else ""
    return f"<td{kind}>{escaped(value)}</td>"


def facts(values: Mapping[str, object]) -> str:
    """Names and values, one below the other."""
    return f"<dl>{''.join(f'<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>' for name, value in values.items())}</dl>"


def tiles(values: Mapping[str, tuple[object, str]]) -> str:
    """Large values side by side.

    Args:
        values: name → the value, and a note below it.
    """
    shown = (
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}<small>{escaped(note)}</small></dd></div>"
        for name, (value, note) in values.items()
    )
    return f'<dl class="tiles">{"".join(shown)}</dl>'


def section(title: str, *parts: str) -> str:
    """A part of the page under a heading."""
    name = re.sub(r"[^a-z]+", "-", title.lower())
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escaped(title)}</h2>{"".join(parts)}</section>'


def paragraph(text: str) -> str:
    """A paragraph."""
    return f"<p>{escaped(text)}</p>"


def folded(title: str, content: str) -> str:
    """Content that the reader unfolds; screen readers reach it by its title."""
    return f"<details><summary>{escaped(title)}</summary>{content}</details>"


def short_count(value: float) -> str:
    """A number for an axis.

    >>> short_count(1500), short_count(2_000_000), short_count(0.25)
    ('1.5k', '2M', '0.25')
    """
    size, unit = float(value), 0
    while abs(size) >= _THOUSAND and unit < len(_UNITS) - 1:
        size, unit = size / _THOUSAND, unit + 1
    return f"{size:.3g}{_UNITS[unit]}"


def short_bytes(value: float) -> str:
    """A number of bytes for an axis."""
    return human_bytes(round(value)) or ""


def short_seconds(value: float) -> str:
    """Seconds for an axis or a cell.

    >>> short_seconds(0.0123), short_seconds(75)
    ('0.01 s', '1 min 15 s')
    """
    if value < _MINUTE:
        return f"{value:.2f} s" if value < _SMALL else f"{value:.0f} s"
    minutes, seconds = divmod(round(value), _MINUTE)
    return f"{minutes} min {seconds} s"
