"""Arrivals: what came into a table, one manifest each. Version n of a table is its first n arrivals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tempura.cost.stats import outer
from tempura.search.problem import ColumnStats
from tempura.warehouse.batches.sketch import ColumnSketch


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What Parquet footers say of a column: NULLs (None: not known), least and greatest value as numbers, and the bytes of all values,
    uncompressed."""

    nulls: int | None = None
    low: float | None = None
    high: float | None = None
    bytes: int = 0

    def __add__(self, other: "ColumnSummary") -> "ColumnSummary":
        nulls = None if self.nulls is None or other.nulls is None else self.nulls + other.nulls
        low, high = outer(min, self.low, other.low), outer(max, self.high, other.high)
        return ColumnSummary(nulls, low, high, self.bytes + other.bytes)

    def stats(self, rows: int, step: float | None, sketch: ColumnSketch | None = None) -> ColumnStats:
        """Statistics of a column of ``rows`` rows, with the sketch of it if there is one; else each row may have a value of its own. Where
        its values are at least a ``step`` apart, it has no more of them than fit between its extremes."""
        fraction = min(1.0, self.nulls / rows) if self.nulls and rows else 0.0
        present = rows * (1 - fraction)
        distinct = min(present, sketch.values(self.low, self.high)) if sketch else present
        apart = max(step or 0.0, (sketch.step if sketch else None) or 0.0)
        if apart and self.low is not None and self.high is not None:
            distinct = min(distinct, (self.high - self.low) / apart + 1)
        width = self.bytes / rows if self.bytes and rows else None
        frequent = sketch.shares() if sketch else {}
        adjacent, run = (sketch.adjacent, sketch.run) if sketch else (1.0, 1.0)
        return ColumnStats(max(1.0, distinct), fraction, self.low, self.high, width, frequent, adjacent, run)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "ColumnSummary":
        """Of a manifest; what format 2 noted of a sample besides is left out."""
        return ColumnSummary(data["nulls"], data["low"], data["high"], data["bytes"])


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of an arrival. ``path`` is relative to the table's folder; ``mtime`` in nanoseconds; ``bytes`` uncompressed;
    ``checksum`` of a file that the warehouse wrote, else empty; ``identity`` is the checksum of one that is read where it is."""

    path: str
    size: int
    mtime: int
    rows: int
    bytes: int
    checksum: str = ""
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """A file that was seen in a table's folder: its path relative to that, its size, its mtime in nanoseconds; ``identity`` is its
    checksum, ``changing`` says that it holds changes."""

    path: str
    size: int
    mtime: int
    identity: str = ""
    changing: bool = False


@dataclass(frozen=True, slots=True)
class Pushed:
    """What was pushed under an id: the ``kind`` of call, and how many rows it gave."""

    id: str
    kind: str
    rows: int


@dataclass(frozen=True, slots=True)
class Membership:
    """The transaction that an arrival is a part of, and the version that it makes of each of its tables."""

    id: str
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arrival: files of inserted and files of deleted rows. ``schema`` is the one they were checked against, ``time`` is when
    they were registered (ISO, UTC). Rows that were copied into the warehouse come from files, the ``origins``, or from a
    ``position`` in a feed. ``ignored`` are columns of the source that were not read. ``pushed``: under which id, if one was given.

    ``reset``: the table begins anew, and nothing before counts. ``refreshed``: the source was taken as it was then; the rows are what
    it differed by, and the ``origins`` are all files that had arrived. ``whole`` are then those that are read where they are: they hold
    what all such files before them held.

    ``aside`` are files of records that came with it and are no rows (``aside.py``). ``unique`` is the key of which it was found, when it
    came, that no two rows have the same; none if that was not looked at.

    ``places`` are two more columns of its files of deletions, if it was noted where the deleted rows lie: the name of a file and the number
    of the row in it, from 0. These files are ``hit``."""

    inserted: tuple[DataFile, ...]
    deleted: tuple[DataFile, ...]
    columns: Mapping[str, ColumnSummary] = field(default_factory=dict)
    schema: str = ""
    time: str = ""
    origins: tuple[Origin, ...] = ()
    position: str = ""
    ignored: tuple[str, ...] = ()
    pushed: Pushed | None = None
    transaction: Membership | None = None
    reset: bool = False
    refreshed: bool = False
    whole: tuple[DataFile, ...] | None = None
    aside: tuple[DataFile, ...] = ()
    unique: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    hit: tuple[str, ...] = ()

    @property
    def copied(self) -> bool:
        """Whether the rows were copied from somewhere, not read where they are or pushed."""
        return bool(self.origins or self.position or self.refreshed)

    @property
    def changing(self) -> bool:
        """Whether the rows are changes that a file told."""
        return not self.refreshed and any(origin.changing for origin in self.origins)

    @property
    def kind(self) -> str:
        """What it was, for people."""
        return "reset" if self.reset else "refresh" if self.refreshed else "changes" if self.changing else "arrival"

    @property
    def seen(self) -> tuple[Origin, ...]:
        """The files of the table's folder that have arrived with it."""
        return self.origins if self.copied else tuple(map(origin_of, self.inserted))

    @property
    def rows(self) -> tuple[int, int]:
        """Rows inserted and rows deleted."""
        return sum(f.rows for f in self.inserted), sum(f.rows for f in self.deleted)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Arrival":
        """The inverse of :meth:`to_json`."""
        inserted, deleted = (tuple(DataFile(**f) for f in data[side]) for side in ("inserted", "deleted"))
        columns = {name: ColumnSummary.from_json(summary) for name, summary in data["columns"].items()}
        origins = tuple(Origin(**o) for o in data.get("origins", ()))
        pushed, transaction = data.get("pushed"), data.get("transaction")
        whole = tuple(DataFile(**f) for f in data["whole"]) if data.get("whole") is not None else None
        return Arrival(
            inserted,
            deleted,
            columns,
            data["schema"],
            data["time"],
            origins,
            data.get("position", ""),
            tuple(data.get("ignored", ())),
            Pushed(**pushed) if pushed else None,
            Membership(transaction["id"], transaction["versions"]) if transaction else None,
            data.get("reset", False),
            data.get("refreshed", False),
            whole,
            tuple(DataFile(**f) for f in data.get("aside", ())),
            tuple(data.get("unique", ())),
            tuple(data.get("places", ())),
            tuple(data.get("hit", ())),
        )


FORGOTTEN = Arrival((), ())
"""An arrival before a reset."""


def origin_of(file: DataFile) -> Origin:
    """A file that is read where it is, as it was seen."""
    return Origin(file.path, file.size, file.mtime, file.identity)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to read: absolute paths of files whose rows count +1, and of files whose rows count -1. ``base`` is the folder from
    which partition columns are read out of the paths, None when there are none. ``given`` are rows that are in no file, each with its
    weight.
    ``narrow`` says of files that lack the table's last columns how many they have; these are NULL. ``places`` says of files of deletions
    which columns tell where the deleted rows lie among the inserted ones (:class:`Arrival`)."""

    inserted: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    base: str | None = None
    given: tuple[tuple[tuple[Any, ...], int], ...] = ()
    narrow: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def signed(self) -> bool:
        """Whether some rows are deletions."""
        return bool(self.deleted) or any(weight < 0 for _, weight in self.given)

    @property
    def are_placed(self) -> bool:
        """Whether some rows are deletions, and it is known of all where they lie: the rows that are there can be told by their places."""
        return bool(self.deleted) and not self.given and all(file in self.places for file in self.deleted)

    @property
    def can_be_located(self) -> bool:
        """Whether it can be told where each of the rows that are there lies."""
        return self.are_placed or not self.signed

    def __add__(self, other: "Rows") -> "Rows":
        base, given = self.base or other.base, self.given + other.given
        narrow, places = {**self.narrow, **other.narrow}, {**self.places, **other.places}
        return Rows(self.inserted + other.inserted, self.deleted + other.deleted, base, given, narrow, places)


def united(arrivals: Sequence[Arrival]) -> Arrival:
    """Several arrivals, which were checked one after the other, as one."""
    inserted, deleted = tuple(f for a in arrivals for f in a.inserted), tuple(f for a in arrivals for f in a.deleted)
    pushed = [a.pushed for a in arrivals if a.pushed]
    counted = replace(pushed[-1], rows=sum(p.rows for p in pushed)) if pushed else None
    known = {a.places for a in arrivals if a.deleted}
    places = known.pop() if len(known) == 1 else ()
    hit = tuple(sorted({name for a in arrivals for name in a.hit})) if places else ()
    compared = {a.unique for a in arrivals if a.inserted}
    unique = compared.pop() if len(compared) == 1 else ()
    columns = summarise(a.columns for a in arrivals)
    sides = replace(arrivals[-1], inserted=inserted, deleted=deleted, unique=unique, places=places, hit=hit)
    return replace(sides, columns=columns, pushed=counted)


def totals(arrivals: Iterable[Arrival]) -> tuple[int, int]:
    """Rows inserted and rows deleted by all."""
    pairs = [arrival.rows for arrival in arrivals]
    return sum(p[0] for p in pairs), sum(p[1] for p in pairs)


def summarise(arrivals: Iterable[Mapping[str, ColumnSummary]]) -> dict[str, ColumnSummary]:
    """The columns of all arrivals together."""
    merged: dict[str, ColumnSummary] = {}
    for columns in arrivals:
        for name, summary in columns.items():
            merged[name] = merged[name] + summary if name in merged else summary
    return merged
