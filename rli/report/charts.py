"""Charts as inline SVG. Colours come from the page's style sheet, by class, so that both themes share one drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rli.report.elements import escaped, folded, table

WIDTH: Final = 720
HEIGHT: Final = 240
_LEFT: Final = 76
_RIGHT: Final = 12
_TOP: Final = 12
_BOTTOM: Final = 30
_PLOT_WIDTH: Final = WIDTH - _LEFT - _RIGHT
_PLOT_HEIGHT: Final = HEIGHT - _TOP - _BOTTOM
_TICKS: Final = 4
_WIDEST_BAR: Final = 48.0
_STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one kind.

    Attributes:
        name: in the legend and the table.
        color: class of the style sheet, such as ``c1``.
        values: one for each place on the horizontal axis; None where there is none.
    """

    name: str
    color: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its table.

    Attributes:
        title: what is shown, with the unit.
        axis: what the places on the horizontal axis are.
        labels: of these places.
        series: what is drawn; bars are stacked.
        show: a value as text.
        base: 1,000, or 1,024 for bytes.
    """

    title: str
    axis: str
    labels: Sequence[str]
    series: Sequence[Series]
    show: Callable[[float], str]
    base: int = 1000

    def bars(self) -> str:
        """The chart as stacked bars."""
        columns = [[series.values[place] or 0 for series in self.series] for place in range(len(self.labels))]
        step, top = self._scale(max(map(sum, columns), default=0))
        return self._figure("".join(self._bars(columns, top)), step, top)

    def line(self) -> str:
        """The chart as a line for the first series, over the area below it."""
        values = self.series[0].values
        step, top = self._scale(max((value for value in values if value is not None), default=0))
        return self._figure("".join(self._line(values, top)), step, top)

    def _scale(self, greatest: float) -> tuple[float, float]:
        """The distance between the lines of the vertical axis, and its upper end."""
        step = axis_step(greatest, self.base)
        return step, step * max(1, math.ceil(greatest / step - 1e-9))

    def _bars(self, columns: Sequence[Sequence[float]], top: float) -> Iterator[str]:
        step = _PLOT_WIDTH / max(1, len(columns))
        width = min(_WIDEST_BAR, step * 0.8)
        for place, values in enumerate(columns):
            x, below = _LEFT + step * (place + 0.5) - width / 2, 0.0
            for series, value in zip(self.series, values, strict=True):
                if value:
                    title = f"{self.labels[place]}: {self.show(value)} {series.name}"
                    yield (
                        f'<rect class="{series.color}" x="{x:.1f}" y="{_y(below + value, top):.1f}" width="{width:.1f}" '
                        f'height="{max(1.0, value / top * _PLOT_HEIGHT):.1f}"><title>{escaped(title)}</title></rect>'
                    )
                below += value

    def _line(self, values: Sequence[float | None], top: float) -> Iterator[str]:
        color, step = self.series[0].color, _PLOT_WIDTH / max(1, len(values) - 1)
        points = [
            (_LEFT + step * place, _y(value, top), place) for place, value in enumerate(values) if value is not None
        ]
        if not points:
            return
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        floor = _y(0, top)
        yield f'<polygon class="{color} area" points="{points[0][0]:.1f},{floor} {path} {points[-1][0]:.1f},{floor}"/>'
        yield f'<polyline class="{color} stroke" points="{path}"/>'
        for x, y, place in points:
            title = f"{self.labels[place]}: {self.show(values[place] or 0)}"
            yield f'<circle class="{color}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{escaped(title)}</title></circle>'

    def _figure(self, marks: str, step: float, top: float) -> str:
        """The drawing with axes and legend, and the same values as a table."""
        rows = [
            [label, *(None if (value := one.values[place]) is None else self.show(value) for one in self.series)]
            for place, label in enumerate(self.labels)
        ]
        listed = table(self.title, [self.axis, *(one.name for one in self.series)], rows)
        legend = "".join(f'<li><i class="{one.color}"></i>{escaped(one.name)}</li>' for one in self.series)
        return (
            f'<figure><figcaption>{escaped(self.title)}</figcaption><div class="scroll" tabindex="0" role="region" '
            f'aria-label="{escaped(self.title)}"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{escaped(self.title)}: the table below has the values">{self._grid(step, top)}{marks}</svg></div>'
            f"{f'<ul class=legend>{legend}</ul>' if len(self.series) > 1 else ''}{folded('Show the values', listed)}</figure>"
        )

    def _grid(self, step: float, top: float) -> str:
        lines = "".join(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{_y(value, top):.1f}" y2="{_y(value, top):.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{_y(value, top) + 4:.1f}" text-anchor="end">{escaped(self.show(value))}</text>'
            for value in (step * line for line in range(round(top / step) + 1))
        )
        return lines + "".join(self._places())

    def _places(self) -> Iterator[str]:
        """Labels of the horizontal axis: all of a few, else the first, the middle and the last one."""
        count, y = len(self.labels), HEIGHT - 10
        if not count:
            return
        step = _PLOT_WIDTH / count
        if max(map(len, self.labels)) * 7 < step:
            for place, label in enumerate(self.labels):
                yield f'<text x="{_LEFT + step * (place + 0.5):.1f}" y="{y}" text-anchor="middle">{escaped(label)}</text>'
            return
        anchors = {
            0: (_LEFT, "start"),
            count - 1: (WIDTH - _RIGHT, "end"),
            count // 2: (_LEFT + _PLOT_WIDTH / 2, "middle"),
        }
        for place, (x, anchor) in anchors.items() if count > 2 else [*anchors.items()][:2]:
            yield f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escaped(self.labels[place])}</text>'


def _y(value: float, top: float) -> float:
    return _TOP + _PLOT_HEIGHT * (1 - value / top)


def axis_step(greatest: float, base: int) -> float:
    """A round distance between the lines of an axis that reaches a value in four steps at most.

    Args:
        greatest: value that is shown.
        base: 1,000, or 1,024 for bytes.

    >>> axis_step(10_062, 1000), axis_step(500 * 1024, 1024), axis_step(0, 1000)
    (5000.0, 204800.0, 1.0)
    """
    least = greatest / _TICKS
    if least <= 0:
        return 1.0
    unit = float(base) ** math.floor(math.log(least, base))
    power = 10.0 ** math.floor(math.log10(least / unit))
    return next(step * power * unit for step in _STEPS if step * power * unit >= least * (1 - 1e-9))
