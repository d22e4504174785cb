"""A figure of ratios as SVG text: queries from left to right in the order of their ratios, a mark per set of methods."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
"""Of the sets of methods, in their order; told apart by readers who see colours differently."""

_STEP, _LEFT, _TOP, _HEIGHT, _BELOW, _RIGHT = 26, 64, 64, 300, 56, 24
_LEAST = 1e-3
"""Ratios below it are drawn there: a logarithm has no 0."""


def figure(title: str, series: Mapping[str, Mapping[str, float]]) -> str:
    """The ratios of each query under each set of methods, on a logarithmic scale; at 1 a line, where Tempura takes what plain Spark
    does. Queries are sorted by the first set."""
    queries = _sorted(series)
    low, high = _decades([value for ratios in series.values() for value in ratios.values()])
    width, height = _LEFT + _STEP * max(len(queries), 12) + _RIGHT, _TOP + _HEIGHT + _BELOW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(_LEFT, 22, title, size=14),
        *_legend(list(series)),
        *_scale(low, high, width - _RIGHT),
        *(_query(x, name) for x, name in enumerate(queries)),
    ]
    for n, ratios in enumerate(series.values()):
        lines += [_mark(queries.index(name), _y(ratio, low, high), n, name, ratio) for name, ratio in ratios.items()]
    return "\n".join([*lines, "</svg>", ""])


def _sorted(series: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The queries in the order of the first set's ratios, then those that it lacks."""
    first = next(iter(series.values()), {})
    known = dict.fromkeys(name for ratios in series.values() for name in ratios)
    return sorted(known, key=lambda name: first.get(name, float("inf")))


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten between which all ratios lie; 1 is one of them."""
    logs = [log10(max(value, _LEAST)) for value in values] or [0.0]
    low, high = min(0, floor(min(logs))), max(0, ceil(max(logs)))
    return (low, high) if low < high else (-1, 1)


def _x(place: int) -> float:
    return _LEFT + _STEP * (place + 0.5)


def _y(ratio: float, low: int, high: int) -> float:
    return _TOP + _HEIGHT * (high - log10(max(ratio, _LEAST))) / (high - low)


def _scale(low: int, high: int, right: int) -> Iterator[str]:
    for decade in range(low, high + 1):
        y = _y(10.0**decade, low, high)
        colour = "#000000" if decade == 0 else "#cccccc"
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{colour}"/>'
        yield _text(_LEFT - 8, y + 4, f"{10.0**decade:g}", anchor="end")


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = float(_LEFT)
    for n, name in enumerate(names):
        yield f'<circle cx="{x + 5:.1f}" cy="40" r="5" fill="{COLOURS[n % len(COLOURS)]}"/>'
        yield _text(x + 15, 44, name)
        x += 40 + 8 * len(name)


def _query(place: int, name: str) -> str:
    return _text(_x(place), _TOP + _HEIGHT + 20, name, anchor="middle", size=10)


def _mark(place: int, y: float, n: int, query: str, ratio: float) -> str:
    colour = COLOURS[n % len(COLOURS)]
    # Marks of later sets are smaller, so that equal ones do not hide each other.
    radius = max(2.5, 5.5 - n)
    shown = escape(f"{query}: {ratio:.2f}")
    return f'<circle cx="{_x(place):.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"><title>{shown}</title></circle>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
