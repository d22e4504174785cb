"""Panels side by side as SVG text: in each, per point of the x axis and series, a mean and the extremes around it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tempura.bench.figure import COLOURS

_LEFT, _TOP, _WIDTH, _HEIGHT, _BELOW, _RIGHT = 64, 72, 360, 220, 56, 24
_ACROSS = 2
"""Panels in a row."""

Point = tuple[float, float, float]
"""A mean, the least and the greatest value."""


@dataclass(frozen=True)
class Panel:
    """``points`` are the names on the x axis, ``series`` have a value for each. ``line``: a value that is marked, such as a bound."""

    title: str
    x: str
    points: Sequence[str]
    series: Mapping[str, Sequence[Point]]
    line: float | None = None


def panels(drawn: Sequence[Panel]) -> str:
    """The panels, two in a row, each from zero."""
    wide, high = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BELOW
    width, height = wide * min(_ACROSS, len(drawn)), high * -(-len(drawn) // _ACROSS)
    title = escape("; ".join(panel.title for panel in drawn))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><title>{title}</title>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for n, panel in enumerate(drawn):
        lines += [f'<g transform="translate({n % _ACROSS * wide} {n // _ACROSS * high})">', *_panel(panel), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel) -> Iterator[str]:
    most = max((high for values in panel.series.values() for _, _, high in values), default=0.0)
    most = 1.05 * max(most, panel.line or 0.0) or 1.0
    yield _text(_LEFT, 20, panel.title)
    for n, name in enumerate(panel.series):
        yield _text(_LEFT + 110 * n, 44, name, COLOURS[n % len(COLOURS)])
    for part in range(5):
        value = most * part / 4
        yield f'<line x1="{_LEFT}" y1="{_y(value, most):.1f}" x2="{_LEFT + _WIDTH}" y2="{_y(value, most):.1f}" stroke="#cccccc"/>'
        yield _text(_LEFT - 8, _y(value, most) + 4, f"{value:.3g}", anchor="end")
    if panel.line is not None:
        y = _y(panel.line, most)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _WIDTH}" y2="{y:.1f}" stroke="#000000" stroke-dasharray="4 3"/>'
    for place, name in enumerate(panel.points):
        yield _text(_x(place, panel), _TOP + _HEIGHT + 18, name, anchor="middle")
    yield _text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 40, panel.x, anchor="middle")
    for n, (name, values) in enumerate(panel.series.items()):
        yield from _drawn(panel, most, n, name, values)


def _drawn(panel: Panel, most: float, n: int, name: str, values: Sequence[Point]) -> Iterator[str]:
    colour = COLOURS[n % len(COLOURS)]
    # Series stand beside each other, so that equal ones do not hide each other.
    aside = 5.0 * (n - (len(panel.series) - 1) / 2)
    for place, (mean, low, high) in enumerate(values):
        x, y = _x(place, panel) + aside, _y(mean, most)
        if high > low:
            yield (
                f'<line x1="{x:.1f}" y1="{_y(low, most):.1f}" x2="{x:.1f}" y2="{_y(high, most):.1f}" '
                f'stroke="{colour}" stroke-width="1.5"/>'
            )
        told = escape(f"{name}, {panel.points[place]}: {mean:.4g} ({low:.4g} to {high:.4g})")
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{told}</title></circle>'


def _x(place: int, panel: Panel) -> float:
    return _LEFT + _WIDTH * (place + 0.5) / len(panel.points)


def _y(value: float, most: float) -> float:
    return _TOP + _HEIGHT * (1 - value / most)


def _text(x: float, y: float, text: str, colour: str = "#000000", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
