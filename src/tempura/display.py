"""The one tree that every plan prints as, and sizes as people write them. Bottom layer: imports nothing of Tempura."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DisplayNode:
    """A labelled node with notes (``rows=10``) and children, rendered as text here and as JSON by :meth:`to_json`."""

    label: str
    notes: tuple[tuple[str, str], ...] = ()
    children: tuple["DisplayNode", ...] = field(default=())

    def lines(self, prefix: str = "", last: bool = True, root: bool = True) -> Iterator[str]:
        """Yield the tree line by line, children drawn with box characters."""
        branch = "" if root else (" └── " if last else " ├── ")
        notes = "  ".join(f"{key}={value}" for key, value in self.notes)
        yield prefix + branch + self.label + (f"  [{notes}]" if notes else "")
        below = prefix if root else prefix + ("     " if last else " │   ")
        for child in self.children:
            yield from child.lines(below, child is self.children[-1], root=False)

    def text(self) -> str:
        """Render the tree as text, without a final newline."""
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, object]:
        """Return the tree as plain data: label, notes, children."""
        return {"label": self.label, "notes": dict(self.notes), "children": [c.to_json() for c in self.children]}


_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

SIZES = "Write 4096, 512 KB, 64 MB or 1 GB."
"""How sizes are written, for the remedy of an error."""


def bytes_of(text: str) -> int | None:
    """The bytes that a size is, such as ``64 MB``; None for a text that is no size."""
    number, _, unit = text.strip().partition(" ")
    return int(number) * _UNITS[unit or "B"] if number.isdecimal() and (unit or "B") in _UNITS else None


def bytes_in(unit: str) -> int:
    """The bytes of a unit, such as ``GB``."""
    return _UNITS[unit]


def bytes_text(size: float) -> str:
    """A size for people: three digits at most, and a unit."""
    unit = next((unit for unit, of in reversed(_UNITS.items()) if size >= of), "B")
    return f"{size / _UNITS[unit]:.3g} {unit}" if size < 1000 * _UNITS[unit] else f"{size / _UNITS[unit]:.0f} {unit}"
