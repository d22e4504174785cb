"""Lives: a query at paces from when its text was declared until it is replaced, with all that is kept of its segments and paths."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tempura.algebra.canonical import fingerprint
from tempura.frontend.lift import Lifted
from tempura.pace import cut as cutting
from tempura.pace.cut import Cut
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Ledger
from tempura.warehouse.declared.declare import QuerySpec
from tempura.warehouse.derived import Compared
from tempura.warehouse.engine import Settings
from tempura.warehouse.paces.pacing import Paces
from tempura.warehouse.paces.segments import Part, PathTable, Segment, parts_of, path_name
from tempura.warehouse.tables.site import Site
from tempura.warehouse.times.steps import StepManifest


@dataclass(frozen=True, eq=False)
class Life:
    """One life, by ``number``, in a folder of its own: the cut query, its segments, and the tables of what paths from segments have
    released, by path. ``begun``: when it did; None while nothing was flushed."""

    number: int
    folder: Path
    cut: Cut
    segments: tuple[Segment, ...]
    released: Mapping[int, PathTable]
    settings: Settings
    begun: datetime | None

    def steps(self, segment: Segment) -> tuple[StepManifest, ...]:
        """The steps of a segment in this life."""
        return tuple(s for s in segment.committed().steps if s.flush and s.flush.life == self.number)

    def last(self, segment: Segment) -> StepManifest | None:
        """The last of them."""
        return segment.last_flush(self.number)

    def paths(self, segment: Segment) -> tuple[cutting.Path, ...]:
        """The paths into a segment."""
        return self.cut.segments[segment.part.number].paths

    def ledger(self, files: Files) -> Ledger:
        """Where the paces are noted that were planned."""
        return Ledger(self.folder / "paces", files)

    def planned(self, files: Files) -> tuple[Paces, ...]:
        """The paces that were planned, oldest first."""
        return tuple(entry.made(Paces.from_json) for entry in self.ledger(files).entries() if entry)


@dataclass(frozen=True)
class Born:
    """What a life is made of: the query by name, declaration and folder, lifted under some settings; ``noted`` are the schemas of its
    tables."""

    site: Site
    name: str
    spec: QuerySpec
    folder: Path
    lifted: Lifted
    settings: Settings
    noted: Mapping[str, str]

    def life(self, number: int, begun: datetime | None) -> Life:
        """The life of a number."""
        made, home = cutting.cut(self.lifted.rel), self.folder / "paced" / str(number)
        segments = tuple(self._segment(part, made, home) for part in parts_of(made, self.lifted, number))
        compared: list[Compared] = [{} for _ in segments]
        released = {
            path.number: PathTable(
                self.site,
                home / "paths" / str(path.number),
                path_name(path.number, number),
                segments[path.source],
                segments[path.into].ledger,
                compared[path.source],
            )
            for path in made.paths
            if path.source is not None
        }
        return Life(number, home, made, segments, released, self.settings, begun)

    def _segment(self, part: Part, made: Cut, home: Path) -> Segment:
        """A segment; the one of the result is run under the query's own name."""
        known = (part, self.settings)
        if part.number != made.result.number:
            return Segment(self.site, self.name, self.spec, home / "segments" / str(part.number), *known)
        return Segment(self.site, self.name, self.spec, self.folder, *known, fingerprint(self.lifted.rel), self.noted)
