"""``tables/NAME/sketches.json``: the sketches of the columns that queries use, and of those by several of which they join, of all arrivals
up to a version, in one file.

It is a cache of what the table's files say, and nothing but estimates is made of it: a file that is missing, damaged, of another
version or of another table is made anew at the next run, a column that cannot be read has none. It never grows with the number of
arrivals: what has arrived since is looked at, and merged with what there is. Of a table of which a part is looked at this waits until
so much has come that it would tell: to look at each of many small arrivals took longer than all else that a run does before it plans.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tempura.errors import TempuraError
from tempura.warehouse.batches.content import described
from tempura.warehouse.batches.sample import columns_of, sketches_of
from tempura.warehouse.batches.sketch import ColumnSketch
from tempura.warehouse.commits.manifests import Entry, read_manifest, sealed, to_bytes
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.uses import Input, Use

VERSION = 4
"""The version of what is stored; others are made anew."""

LITTLE = 1 / 20
"""The part of a table's rows that what has come since may be and not be looked at: counts of distinct values err by about as much."""

Sketches = Mapping[str, ColumnSketch]
_File = tuple[Path, int]
_UNREADABLE = (OSError, pa.ArrowException, TempuraError, LookupError, ValueError, TypeError, RuntimeError)
"""What may go wrong in making or reading a sketch: files that are gone or cut, and what the library makes of wrong bytes."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The sketch of a column, of the arrivals after ``base`` up to ``upto``, which ``mark`` tells from those of other tables; None of a
    column that cannot be sketched."""

    sketch: ColumnSketch | None
    base: int
    upto: int
    mark: str

    def to_json(self) -> dict[str, Any]:
        place = {"base": self.base, "upto": self.upto, "mark": self.mark}
        return {**place, "sketch": self.sketch.to_json() if self.sketch else None}

    def after(self, earlier: "_Known | None") -> "_Known":
        """With what was seen before; nothing if either cannot be sketched."""
        if earlier is None:
            return self
        both = earlier.sketch + self.sketch if earlier.sketch and self.sketch else None
        return replace(self, sketch=both)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "_Known":
        sketch = None if data["sketch"] is None else ColumnSketch.from_json(data["sketch"])
        return _Known(sketch, int(data["base"]), int(data["upto"]), str(data["mark"]))


def known_sketches(table: Arrivals | Prospect, columns: Collection[str] = ()) -> Sketches:
    """What is stored of a table as it is now, however long ago that was looked at; of ``columns`` the sketches that a run would have of it
    and of what waits in its feed. Nothing is written."""
    if isinstance(table, Arrivals):
        return _there(_brought_up(table, table.version(), columns, _read(_file(table))))
    stored = table.table
    coming = [
        (stored.shelf.home_of(a) / file.path, file.rows) for a in table.coming for file in a.inserted if file.path
    ]
    found = _there(_brought_up(stored, stored.version(), columns, _read(_file(stored)), coming))
    # Of rows that would be copied nothing is in a file.
    for name, sketch in table.sketches.items():
        if name in columns:
            found[name] = found[name] + sketch if name in found else sketch
    return found


def brought_up(table: Arrivals, version: int, columns: Collection[str]) -> Sketches:
    """The sketches of a version of a table, those of ``columns`` brought up to it and stored. Raises OSError when they cannot be."""
    stored = _read(_file(table))
    known = _brought_up(table, version, columns, stored)
    if known != stored:
        _write(table, known)
    return _there(known)


def sketches_for(table: Input, version: int, columns: Collection[str]) -> Sketches:
    """The sketches of the ``columns`` that a query uses of what it reads, brought up to a version; what only looks stores none."""
    stored = table.table if isinstance(table, Use) else table
    if isinstance(stored, Prospect):
        return known_sketches(stored, columns)
    return brought_up(stored, version, columns) if isinstance(stored, Arrivals) else {}


def _brought_up(
    table: Arrivals, version: int, columns: Collection[str], stored: Mapping[str, _Known], coming: Sequence[_File] = ()
) -> dict[str, _Known]:
    base = _base(table, version)
    known = {n: k for n, k in stored.items() if k.upto <= version and _counts(k, table, base)}
    behind: dict[int, list[str]] = {}
    there = set(table.schema.names)
    for name in sorted(name for name in columns if there.issuperset(columns_of(name, there))):
        # A column that could not be sketched once stays without a sketch.
        if name not in known or known[name].sketch is not None:
            behind.setdefault(known[name].upto if name in known else base, []).append(name)
    with suppress(*_UNREADABLE):
        for upto, lagging in behind.items():
            arrived = table.inserted_files(upto if upto > base else 0, version) if upto < version else []
            files = [*((Path(path), rows) for path, rows in arrived), *coming]
            more = sum(rows for _, rows in files)
            names = [name for name in lagging if files and _tells(more, known.get(name))]
            found = sketches_of([path for path, _ in files], more, names) if names else {}
            mark = table.mark(version) if names else ""
            for name in names:
                known[name] = _Known(found.get(name), base, version, mark).after(known.get(name))
    return known


def _tells(more: int, known: _Known | None) -> bool:
    """Whether so many rows that have come since a sketch was made have to be looked at: always where it is of all rows."""
    sketch = known.sketch if known else None
    return sketch is None or sketch.is_whole or more > LITTLE * sketch.rows


def _there(known: Mapping[str, _Known]) -> dict[str, ColumnSketch]:
    return {name: entry.sketch for name, entry in known.items() if entry.sketch is not None}


def _base(table: Arrivals, version: int) -> int:
    """The version after which the arrivals begin that describe a version."""
    arrivals = table.arrivals()[:version]
    return version - len(described(arrivals))


def _counts(known: _Known, table: Arrivals, base: int) -> bool:
    with suppress(*_UNREADABLE):
        return known.base == base and table.follows(known.upto, known.mark)
    return False


def _file(table: Arrivals) -> Path:
    return table.home / "sketches.json"


def _read(path: Path) -> Mapping[str, _Known]:
    with suppress(*_UNREADABLE):
        if path.exists():
            return read_manifest(path).made(_made)
    return {}


def _made(entry: Mapping[str, Any]) -> Mapping[str, _Known]:
    if entry.get("sketches") != VERSION:
        return {}
    return {name: _Known.from_json(data) for name, data in entry["columns"].items()}


def _write(table: Arrivals, known: Mapping[str, _Known]) -> None:
    """Of two processes that write at once one wins; a mixture has no checksum that fits."""
    data = Entry({"sketches": VERSION, "columns": {name: entry.to_json() for name, entry in known.items()}})
    path, files = _file(table), table.site.files
    temporary = path.with_suffix(".new")
    files.write(temporary, to_bytes(sealed(data)))
    with suppress(FileNotFoundError):
        files.replace(temporary, path)
