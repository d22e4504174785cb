"""A figure of several series over the same points as SVG text: one line each, from zero."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from tempura.bench.figure import COLOURS

_LEFT, _TOP, _WIDTH, _HEIGHT = 80, 64, 560, 280


def lines(title: str, series: Mapping[str, Sequence[tuple[str, float]]], x: str, y: str = "rows per second") -> str:
    """Each series as a line; all have the same points, which stand at equal distances."""
    points = [name for name, _ in next(iter(series.values()))]
    most = max(value for values in series.values() for _, value in values) or 1.0
    body = [*_axes(points, most, x, y)]
    for n, (name, values) in enumerate(series.items()):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(f"{_x(k, len(points)):.1f},{_y(value, most):.1f}" for k, (_, value) in enumerate(values))
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body += [
            f'<circle cx="{_x(k, len(points)):.1f}" cy="{_y(value, most):.1f}" r="3" fill="{colour}">'
            f"<title>{escape(f'{name}, {at}: {value:,.0f}')}</title></circle>"
            for k, (at, value) in enumerate(values)
        ]
        body.append(_text(_LEFT + 130 * n, 44, name, colour))
    width, height = _LEFT + _WIDTH + 24, _TOP + _HEIGHT + 56
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><title>{escape(title)}</title>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    )
    return "\n".join([head, _text(_LEFT, 20, title), *body, "</svg>", ""])


def _x(place: int, count: int) -> float:
    return _LEFT + _WIDTH * (place + 0.5) / count


def _y(value: float, most: float) -> float:
    return _TOP + _HEIGHT * (1 - value / (1.05 * most))


def _axes(points: Sequence[str], most: float, x: str, y: str) -> Iterator[str]:
    for part in range(5):
        value = most * part / 4
        at = _y(value, most)
        yield f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_LEFT + _WIDTH}" y2="{at:.1f}" stroke="#cccccc"/>'
        yield _text(_LEFT - 8, at + 4, f"{value:,.0f}", anchor="end")
    every = max(1, len(points) // 10)
    for place in range(0, len(points), every):
        yield _text(_x(place, len(points)), _TOP + _HEIGHT + 18, points[place], anchor="middle")
    yield _text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 40, x.replace("_", " "), anchor="middle")
    yield _text(8, _TOP - 6, y)


def _text(x: float, y: float, text: str, colour: str = "#000000", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
